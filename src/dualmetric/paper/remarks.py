"""What we make of the differences between the paper's results and ours."""

CONCLUSIONS = ""

DIFFERENCES = ""
