"""Draw figures of reports: one style, units on every axis, captions that say what is shown."""
