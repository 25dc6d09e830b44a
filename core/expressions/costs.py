"""What the parts of an expression cost at worst, in units of about 20 microseconds."""

MAX_COST = 100.0
"""Of one evaluation, and of all formulas of a record together: two milliseconds."""
NODE_COST = 0.02
TEXT_COST = 15.0
"""Of a function that reads a text as long as texts may be."""
JOIN_COST = 0.25
"""Of `+`, which may copy two texts."""
ORDER_COST = 0.11
"""Of `<` and the like, which may look at the beginnings of two texts."""
CHARACTER_COST = 0.0001
"""Of a character that is written out and compared with a text."""
CHANGED_COST = 1.0
"""Of `changed`, which may look at as many names as a list may have."""
COMPARISON_COST = 25.0
"""Of all comparisons together, which have a number of items and of characters."""
PATTERN_STEP_COST = 0.00025
"""Of a step of a pattern: 5 nanoseconds."""
LOOP_COST = 200.0
"""How often, at most and in units of nodes, the condition of `all` or `exists` is evaluated."""
