"""The notebook with which a volunteer joins, and the wheel of this program that it installs."""
