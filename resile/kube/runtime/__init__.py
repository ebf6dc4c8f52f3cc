"""The machinery of controllers: reflector, cache, work queue, leader election, events."""
