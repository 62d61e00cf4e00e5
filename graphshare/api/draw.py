"""``draw``: a graph as a picture."""

from graphshare.drawing.draw import draw as draw
