"""The script by which a volunteer joins with one line, and the pins of the packages that it installs."""
