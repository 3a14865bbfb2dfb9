/*
 * Forks while other threads come to the slice for the first time; each child then uses the GPU, too. A child that
 * waits for a lock of a thread it does not have is ended by its alarm. Exit code: the number of such children.
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define CHILDREN 6
#define PATIENCE 10 /* seconds */

static void *cuda;

static void *use(void *unused)
{
    __typeof__(&cuDeviceTotalMem_v2) total = (__typeof__(total))dlsym(cuda, "cuDeviceTotalMem_v2");
    size_t bytes;
    for (int i = 0; i < 20; i++)
        total(&bytes, 0);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    int status, stuck = 0;
    cuda = dlopen("libcuda.so.1", RTLD_LAZY);
    if (!cuda)
        return 100;
    __typeof__(&cuInit) init = (__typeof__(init))dlsym(cuda, "cuInit");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, use, NULL);
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(PATIENCE);
            init(0);
            use(NULL);
            _exit(0);
        }
        waitpid(child, &status, 0);
        stuck += status != 0;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return stuck;
}
