/* Nothing: the library that a test makes of the limiter's image.c needs a source of its own. */
extern int only_the_limiters_source_counts;
