"""The colors of all pictures: the palette of Okabe and Ito for color-blind readers."""

BLACK = "#000000"
ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"  # used by the style sheet of the reports
BLUE = "#0072B2"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"

# The order of the lines in one picture: neighbors differ most. The palette's yellow is too pale for a line.
LINES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE, BLACK)
