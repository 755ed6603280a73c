"""Figures of reports; one style, units on every axis, a caption that says what is shown."""
