"""Charts of the site and of reports: SVG written in Python, without JavaScript and without another library.

A chart is a pure function from numbers to `chart.Chart`, which is picture and table, or to a drawing. Colors are classes that `static/charts.css` defines for light
and dark, and presentation attributes with the light colors, so that a downloaded SVG needs no style sheet.
"""
