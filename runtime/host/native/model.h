/* What the compiler writes about a model, for model.c. tools/library/tables.py writes it: all members take 8 bytes, and
   those of arrays of words 4. Texts end with 0. */
#ifndef MXF_MODEL_H
#define MXF_MODEL_H

#include <stdint.h>

#include "mxforge.h"
#include "pool.h"

#define MXF_MOST_AXES 64 /* of a tensor */

typedef struct mxf_context mxf_context;

/* An instruction set that the code needs. On x86-64 the bits `mask` of register `word` (eax, ebx, ecx, edx) of
   cpuid(leaf, subleaf); of xgetbv(0) if the leaf is -1. On AArch64 the bits `mask` of getauxval(leaf). */
struct model_need {
    const char *name;
    int64_t leaf, subleaf, word, mask;
};

/* What the addresses in words of records start from. */
enum model_space { SPACE_INPUT, SPACE_OUTPUT, SPACE_FLAG, SPACE_KEY, SPACE_SCRATCH, SPACE_OWN, SPACE_PREPARED, SPACE_FIXED };

/* Words of records that hold addresses in one block of memory. A word has the offset, and gets the address of the block
   added: of input, output or flag `index`, or `fixed`. */
struct model_block {
    int64_t space, index;
    const char *fixed;
    const uint32_t *words;
    int64_t n;
};

struct model_check {
    const char *message;
};

/* The code for one shape of each input. Records and tables are `words`, as in codegen/records.py: `kernels` are pairs of a
   word and the number of a kernel, whose address it gets; `links` are pairs of words, of which the first gets the address
   of the second. The first `prepare` records fill the prepared memory number `prepared`, if that is not -1. */
struct model_program {
    const mxf_tensor *inputs, *outputs; /* without memory */
    const int64_t *words;
    int64_t n_words;
    const uint32_t *kernels;
    int64_t n_kernels;
    const uint32_t *links;
    int64_t n_links;
    const struct model_block *blocks;
    int64_t n_blocks;
    int64_t prepare, groups, prepared;
    int64_t scratch_bytes, own_bytes, output_bytes; /* outputs and then flags; each output takes a multiple of 64 */
    const struct model_check *checks;
    int64_t n_checks;
    int64_t draws; /* how many numbers of calls a run takes from the stream of random keys; 0: it takes no key */
};

struct model {
    const char *name;
    const char *takes; /* the shapes of the inputs, as text */
    int64_t inputs, outputs, threads;
    const int64_t *states; /* for each input, 1 if a run replaces it */
    const struct model_program *programs;
    int64_t n_programs;
    const mxf_kernel *kernels;
    const int64_t *prepared_bytes;
    int64_t n_prepared;
    const struct model_need *needs;
    int64_t n_needs;
};

/* The model of this library. */
extern const struct model model_data __attribute__((visibility("hidden")));

#endif
