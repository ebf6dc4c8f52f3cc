"""The platforms that run nodes. A platform executes actions and reports what it observes."""
