/* A driver that makes contexts only with the help of a graphics system, and no more than Weir needs for that. */
#include <stddef.h>
#include <string.h>

int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetCount(int *count);
int cuDeviceGetUuid_v2(char uuid[16], int device);
int cuGLCtxCreate_v2(void **context, unsigned int flags, int device);
int cuVDPAUCtxCreate_v2(void **context, unsigned int flags, int device, unsigned int vdpau, void *lookup);
int cuCtxDestroy_v2(void *context);

static int made;

int cuDeviceGet(int *device, int ordinal) { return *device = ordinal; }

int cuDeviceGetCount(int *count)
{
    *count = 1;
    return 0;
}

int cuDeviceGetUuid_v2(char uuid[16], int device)
{
    memset(uuid, device, 16);
    return 0;
}

int cuGLCtxCreate_v2(void **context, unsigned int flags, int device)
{
    *context = &made;
    return (int)flags + device;
}

int cuVDPAUCtxCreate_v2(void **context, unsigned int flags, int device, unsigned int vdpau, void *lookup)
{
    *context = lookup;
    return (int)(flags + vdpau) + device;
}

int cuCtxDestroy_v2(void *context) { return context == NULL; }
