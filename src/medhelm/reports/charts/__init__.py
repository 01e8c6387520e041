"""Charts of the site: SVG written in Python, without JavaScript, and the same numbers as a table.

A chart is a pure function from numbers to `chart.Chart`. Colors are classes that `static/charts.css` defines for light
and dark, and presentation attributes with the light colors, so that a downloaded SVG needs no style sheet.
"""
