"""The limiter: a C library preloaded into GPU programs, its page formats, and their Python side."""
