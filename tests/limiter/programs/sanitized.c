/* Any program; what matters is the sanitizer that it is compiled with. */
#include <stdlib.h>

int main(void)
{
    void *memory = malloc(10);
    free(memory);
    return memory == NULL;
}
