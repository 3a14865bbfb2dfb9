/* The next library after caller.c's in the search order. */
int probe(void);

int probe(void)
{
    return 2;
}
