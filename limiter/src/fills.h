/*
 * Fills of device memory: work of the card that no launch call shows. hooks.h includes this list and launch.c
 * defines all of it.
 *
 *   X(symbol, prototype, need, (params), (args), stream, bytes)    see hooks.h for the first three columns
 *
 * `stream` is where the fill runs; `bytes` tells fills of about one size, which take about one time, from others.
 */
#ifndef WEIR_FILLS_H
#define WEIR_FILLS_H

/* Fills, done by kernels of the driver's own or by a copy engine: paced like launches (launch.c). */
#define WEIR_FILL_HOOKS(X)                                                                                   \
    X(cuMemsetD8, cuMemsetD8, OPTIONAL,                                                                      \
      (CUdeviceptr_v1 to, unsigned char value, unsigned int count),                                          \
      (to, value, count), NULL, (uint64_t)count)                                                             \
    X(cuMemsetD8_v2, cuMemsetD8_v2, OPTIONAL,                                                                \
      (CUdeviceptr to, unsigned char value, size_t count),                                                   \
      (to, value, count), NULL, (uint64_t)count)                                                             \
    X(cuMemsetD8_v2_ptds, cuMemsetD8_v2, OPTIONAL,                                                           \
      (CUdeviceptr to, unsigned char value, size_t count),                                                   \
      (to, value, count), CU_STREAM_PER_THREAD, (uint64_t)count)                                             \
    X(cuMemsetD8Async, cuMemsetD8Async, OPTIONAL,                                                            \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),                                  \
      (to, value, count, stream), stream, (uint64_t)count)                                                   \
    X(cuMemsetD8Async_ptsz, cuMemsetD8Async, OPTIONAL,                                                       \
      (CUdeviceptr to, unsigned char value, size_t count, CUstream stream),                                  \
      (to, value, count, stream), own_default(stream), (uint64_t)count)                                      \
    X(cuMemsetD16, cuMemsetD16, OPTIONAL,                                                                    \
      (CUdeviceptr_v1 to, unsigned short value, unsigned int count),                                         \
      (to, value, count), NULL, 2 * (uint64_t)count)                                                         \
    X(cuMemsetD16_v2, cuMemsetD16_v2, OPTIONAL,                                                              \
      (CUdeviceptr to, unsigned short value, size_t count),                                                  \
      (to, value, count), NULL, 2 * (uint64_t)count)                                                         \
    X(cuMemsetD16_v2_ptds, cuMemsetD16_v2, OPTIONAL,                                                         \
      (CUdeviceptr to, unsigned short value, size_t count),                                                  \
      (to, value, count), CU_STREAM_PER_THREAD, 2 * (uint64_t)count)                                         \
    X(cuMemsetD16Async, cuMemsetD16Async, OPTIONAL,                                                          \
      (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),                                 \
      (to, value, count, stream), stream, 2 * (uint64_t)count)                                               \
    X(cuMemsetD16Async_ptsz, cuMemsetD16Async, OPTIONAL,                                                     \
      (CUdeviceptr to, unsigned short value, size_t count, CUstream stream),                                 \
      (to, value, count, stream), own_default(stream), 2 * (uint64_t)count)                                  \
    X(cuMemsetD32, cuMemsetD32, OPTIONAL,                                                                    \
      (CUdeviceptr_v1 to, unsigned int value, unsigned int count),                                           \
      (to, value, count), NULL, 4 * (uint64_t)count)                                                         \
    X(cuMemsetD32_v2, cuMemsetD32_v2, OPTIONAL,                                                              \
      (CUdeviceptr to, unsigned int value, size_t count),                                                    \
      (to, value, count), NULL, 4 * (uint64_t)count)                                                         \
    X(cuMemsetD32_v2_ptds, cuMemsetD32_v2, OPTIONAL,                                                         \
      (CUdeviceptr to, unsigned int value, size_t count),                                                    \
      (to, value, count), CU_STREAM_PER_THREAD, 4 * (uint64_t)count)                                         \
    X(cuMemsetD32Async, cuMemsetD32Async, OPTIONAL,                                                          \
      (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),                                   \
      (to, value, count, stream), stream, 4 * (uint64_t)count)                                               \
    X(cuMemsetD32Async_ptsz, cuMemsetD32Async, OPTIONAL,                                                     \
      (CUdeviceptr to, unsigned int value, size_t count, CUstream stream),                                   \
      (to, value, count, stream), own_default(stream), 4 * (uint64_t)count)                                  \
    X(cuMemsetD2D8, cuMemsetD2D8, OPTIONAL,                                                                  \
      (CUdeviceptr_v1 to, unsigned int pitch, unsigned char value, unsigned int width,                       \
       unsigned int height),                                                                                 \
      (to, pitch, value, width, height), NULL, (uint64_t)width * height)                                     \
    X(cuMemsetD2D8_v2, cuMemsetD2D8_v2, OPTIONAL,                                                            \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),                      \
      (to, pitch, value, width, height), NULL, (uint64_t)width * height)                                     \
    X(cuMemsetD2D8_v2_ptds, cuMemsetD2D8_v2, OPTIONAL,                                                       \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height),                      \
      (to, pitch, value, width, height), CU_STREAM_PER_THREAD, (uint64_t)width * height)                     \
    X(cuMemsetD2D8Async, cuMemsetD2D8Async, OPTIONAL,                                                        \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),     \
      (to, pitch, value, width, height, stream), stream, (uint64_t)width * height)                           \
    X(cuMemsetD2D8Async_ptsz, cuMemsetD2D8Async, OPTIONAL,                                                   \
      (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream),     \
      (to, pitch, value, width, height, stream), own_default(stream), (uint64_t)width * height)              \
    X(cuMemsetD2D16, cuMemsetD2D16, OPTIONAL,                                                                \
      (CUdeviceptr_v1 to, unsigned int pitch, unsigned short value, unsigned int width,                      \
       unsigned int height),                                                                                 \
      (to, pitch, value, width, height), NULL, 2 * (uint64_t)width * height)                                 \
    X(cuMemsetD2D16_v2, cuMemsetD2D16_v2, OPTIONAL,                                                          \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),                     \
      (to, pitch, value, width, height), NULL, 2 * (uint64_t)width * height)                                 \
    X(cuMemsetD2D16_v2_ptds, cuMemsetD2D16_v2, OPTIONAL,                                                     \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height),                     \
      (to, pitch, value, width, height), CU_STREAM_PER_THREAD, 2 * (uint64_t)width * height)                 \
    X(cuMemsetD2D16Async, cuMemsetD2D16Async, OPTIONAL,                                                      \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),    \
      (to, pitch, value, width, height, stream), stream, 2 * (uint64_t)width * height)                       \
    X(cuMemsetD2D16Async_ptsz, cuMemsetD2D16Async, OPTIONAL,                                                 \
      (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream),    \
      (to, pitch, value, width, height, stream), own_default(stream), 2 * (uint64_t)width * height)          \
    X(cuMemsetD2D32, cuMemsetD2D32, OPTIONAL,                                                                \
      (CUdeviceptr_v1 to, unsigned int pitch, unsigned int value, unsigned int width, unsigned int height),  \
      (to, pitch, value, width, height), NULL, 4 * (uint64_t)width * height)                                 \
    X(cuMemsetD2D32_v2, cuMemsetD2D32_v2, OPTIONAL,                                                          \
      (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),                       \
      (to, pitch, value, width, height), NULL, 4 * (uint64_t)width * height)                                 \
    X(cuMemsetD2D32_v2_ptds, cuMemsetD2D32_v2, OPTIONAL,                                                     \
      (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height),                       \
      (to, pitch, value, width, height), CU_STREAM_PER_THREAD, 4 * (uint64_t)width * height)                 \
    X(cuMemsetD2D32Async, cuMemsetD2D32Async, OPTIONAL,                                                      \
      (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),      \
      (to, pitch, value, width, height, stream), stream, 4 * (uint64_t)width * height)                       \
    X(cuMemsetD2D32Async_ptsz, cuMemsetD2D32Async, OPTIONAL,                                                 \
      (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream),      \
      (to, pitch, value, width, height, stream), own_default(stream), 4 * (uint64_t)width * height)

#endif
