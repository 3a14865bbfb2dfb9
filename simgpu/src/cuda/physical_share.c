/*
 * Physical memory shared between processes by POSIX file descriptors.
 *
 * What may be exported is a file of its own, with a page behind its bytes that says what it is; its
 * descriptor is the handle that travels, and its inode tells whether this process has it already. The card is
 * charged once, in the name of one of the processes that hold it. What it does not do: fabric and Windows
 * handles.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "physical.h"

#define LABEL_SIZE 4096u
#define LABEL_MARK UINT64_C(0x4c4142454c4d4953) /* "SIMLABEL" */

struct label { /* behind the bytes of an exportable file */
    uint64_t mark, size;
    uint32_t device;
    struct sim_share_ref share;
    CUmemAllocationProp properties;
};

static bool write_label(const struct sim_physical *physical)
{
    struct label label = {LABEL_MARK, physical->size, physical->device, physical->share, physical->properties};
    return pwrite(physical->fd, &label, sizeof label, (off_t)physical->size) == (ssize_t)sizeof label;
}

bool sim_physical_place_in_own_file(struct sim_physical *physical)
{
    struct stat file;
    physical->fd = sim_arena_file(physical->size + LABEL_SIZE);
    if (physical->fd < 0)
        return false;
    if (write_label(physical) && !fstat(physical->fd, &file)) {
        physical->inode = file.st_ino;
        return true;
    }
    close(physical->fd);
    return false;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags)
{
    struct sim_physical *physical;
    CUresult result = sim_enter(__func__);
    if (!result && (!shareableHandle || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    result = sim_physical_resolve(handle, &physical);
    if (!result && !sim_physical_exportable(physical))
        result = CUDA_ERROR_INVALID_VALUE;
    int fd = result ? -1 : fcntl(physical->fd, F_DUPFD_CLOEXEC, 0);
    sim_memory_unlock();
    if (!result && fd < 0)
        result = CUDA_ERROR_OPERATING_SYSTEM;
    if (!result)
        *(int *)shareableHandle = fd;
    return result;
}

static bool read_label(int fd, struct label *label, struct stat *file)
{
    return !fstat(fd, file) && file->st_size > (off_t)LABEL_SIZE &&
           pread(fd, label, sizeof *label, file->st_size - (off_t)LABEL_SIZE) == (ssize_t)sizeof *label &&
           label->mark == LABEL_MARK && label->size == (uint64_t)file->st_size - LABEL_SIZE &&
           (label->device == SIM_NONE || label->device < sim_machine->device_count);
}

/* Whoever else holds it has paid. If nobody does, only the descriptor kept it: this process pays from now on. */
static CUresult join(struct sim_physical *physical, const struct sim_share_ref *share)
{
    physical->share = *share;
    if (physical->device == SIM_NONE || sim_share_join(*share))
        return CUDA_SUCCESS;
    CUresult result = sim_physical_charge(physical);
    return result || write_label(physical) ? result : CUDA_ERROR_OPERATING_SYSTEM;
}

static CUresult import(int fd, const struct label *label, uint64_t inode, struct sim_physical **made)
{
    struct sim_physical *physical = calloc(1, sizeof *physical);
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (physical && own >= 0) {
        *physical = (struct sim_physical){.size = label->size,
                                          .device = label->device,
                                          .properties = label->properties,
                                          .fd = own,
                                          .inode = inode};
        result = join(physical, &label->share);
    }
    if (!result && sim_physical_enlist(physical)) {
        *made = physical;
        return CUDA_SUCCESS;
    }
    if (!result)
        sim_physical_uncharge(physical);
    if (own >= 0)
        close(own);
    free(physical);
    return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    struct label label;
    struct stat file;
    int fd = (int)(intptr_t)osHandle;
    CUresult result = sim_enter(__func__);
    if (!result && (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !read_label(fd, &label, &file))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    sim_memory_lock();
    struct sim_physical *physical = sim_physical_of_inode(file.st_ino);
    if (physical)
        physical->handles++; /* made or imported here before: the same memory */
    else
        result = import(fd, &label, file.st_ino, &physical);
    if (!result)
        *handle = physical->id;
    sim_memory_unlock();
    return result;
}
