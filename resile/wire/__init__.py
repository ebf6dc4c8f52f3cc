"""The one protocol between agents and master: messages, client, server, authentication."""
