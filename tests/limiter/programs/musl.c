/*
 * A program of musl's: linked against its libc.so alone, begun by its loader, compiled without anybody's headers.
 * It looks a function up, asks for one that nobody has and for a driver's, forks, waits for its input to end, and
 * says what it saw.
 */
typedef long word;

int printf(const char *format, ...);
int fflush(void *stream);
void *dlopen(const char *file, int flags);
void *dlsym(void *handle, const char *name);
int fork(void);
int waitpid(int pid, int *status, int options);
void _exit(int status) __attribute__((noreturn));
void exit(int status) __attribute__((noreturn));
word read(int file, void *to, unsigned long size);

void _start(void);

__attribute__((force_align_arg_pointer)) void _start(void)
{
    int status = 0;
    char byte;
    void *self = dlopen(0, 1);
    printf("printf %d, none %d, driver %d\n", dlsym(self, "printf") == (void *)printf, dlsym(self, "no_such") == 0,
           dlopen("libcuda.so.1", 1) == 0);
    fflush(0);
    int child = fork();
    if (!child)
        _exit(7);
    waitpid(child, &status, 0);
    printf("child %d\n", status >> 8);
    fflush(0);
    while (read(0, &byte, 1) > 0)
        ;
    exit(3);
}
