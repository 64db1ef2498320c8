"""Boards of people and of teams: tables of a period, a row of which opens a page."""
