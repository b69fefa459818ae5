"""Teach a distance by clicking: see ``dualmetric teach`` and `Metric.teach`.

========================  ==================================================================
module                    what it knows
========================  ==================================================================
``judgements``            judgements, the groups they imply, their comparisons, and their file
``live``                  the metric of the moment, and the nearest rows under it
``meter``                 whether teaching helps, from judgements not yet learned from
``policy``                what to ask next
``session``               all of these together: one person teaching one distance
``content``               rows as texts, pictures or table rows
``server``                the page and its requests, on this computer only
========================  ==================================================================
"""
