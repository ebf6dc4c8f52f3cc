"""Tables, views, formats and explanations that commands print."""
