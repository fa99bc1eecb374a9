/* Sentence embeddings from C: a model that cinn_like.aot() has compiled, weights inside, and libcinn_runtime.so.

     python examples/embed_sentences.py minilm.so < sentences.txt > sentences.ids
     cc $(python -m cinn_like --cflags) examples/embed_sentences.c $(python -m cinn_like --libs)
     ./a.out minilm.so < sentences.ids

   A line of token ids in, a line of numbers out: the sentence's embedding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/library.h"

enum { kMaxSentences = 64, kMaxTokens = 512 };

static int64_t ids[kMaxSentences * kMaxTokens], mask[kMaxSentences * kMaxTokens];

/* The ids of one line; -1 where it has more than there is room for. */
static int ReadLine(const char* line, int64_t* to) {
  int count = 0;
  for (char* end;; line = end) {
    const long long id = strtoll(line, &end, 10);
    if (end == line) return count;
    if (count == kMaxTokens) return -1;
    to[count++] = id;
  }
}

static DLTensor Tensor(void* data, DLDataTypeCode code, uint8_t bits, int64_t* shape) {
  DLTensor t = {0};
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = 2;
  t.dtype.code = code;
  t.dtype.bits = bits;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

static CinnValue Value(DLTensor* t) {
  CinnValue v = {0};
  v.tag = kCinnTensor;
  v.tensor = t;
  return v;
}

/* The result: its memory and its sizes. */
typedef struct {
  float* data;
  int64_t shape[2];
} Result;

static int32_t Allocate(void* context, int32_t index, DLTensor* spec) {
  Result* result = context;
  if (index != 0 || spec->ndim != 2 || spec->dtype.code != kDLFloat || spec->dtype.bits != 32) return -1;
  memcpy(result->shape, spec->shape, sizeof(result->shape));
  const size_t bytes = (size_t)(spec->shape[0] * spec->shape[1]) * sizeof(float);
  spec->data = result->data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return spec->data ? 0 : -1;
}

static int Fail(const char* what) {
  fprintf(stderr, "embed_sentences: %s: %s\n", what, CinnLibraryError());
  return 1;
}

int main(int argc, char** argv) {
  int lengths[kMaxSentences], count = 0, longest = 0;
  static char line[16 * kMaxTokens];
  while (count < kMaxSentences && fgets(line, sizeof(line), stdin)) {
    const int length = ReadLine(line, &ids[count * kMaxTokens]);
    if (length < 0) return fprintf(stderr, "embed_sentences: line %d is too long\n", count + 1), 1;
    if (length > longest) longest = length;
    lengths[count++] = length;
  }
  /* As long as the longest: shorter ones end with tokens that the mask leaves out. */
  for (int i = 0; i < count; ++i) {
    memmove(&ids[i * longest], &ids[i * kMaxTokens], (size_t)lengths[i] * sizeof(int64_t));
    for (int k = 0; k < longest; ++k) {
      mask[i * longest + k] = k < lengths[i];
      if (k >= lengths[i]) ids[i * longest + k] = 0;
    }
  }

  CinnLibrary* library;
  if (CinnLibraryOpen(argc > 1 ? argv[1] : "minilm.so", &library) != 0) return Fail("open");
  const CinnFunctionPtr embed = CinnLibraryLookup(library, "minilm");
  if (!embed) return Fail("lookup");
  Result result = {0};
  CinnCallEnv env = {0};
  env.size = sizeof(env);
  env.device.device_type = kDLCPU;
  env.context = &result;
  env.alloc = Allocate;
  void* self;
  if (CinnLibraryPrepare(library, "minilm", NULL, 0, &env, &self) != 0) return Fail("prepare");

  int64_t shape[2] = {count, longest};
  DLTensor tensors[2] = {Tensor(ids, kDLInt, 64, shape), Tensor(mask, kDLInt, 64, shape)};
  const CinnValue args[3] = {Value(&tensors[0]), Value(&tensors[1])}; /* and None: the result is to be allocated */
  if (embed(self, args, 3, &env) != 0) return Fail("embed");
  for (int64_t i = 0; i < result.shape[0]; ++i) {
    for (int64_t k = 0; k < result.shape[1]; ++k) {
      printf("%.9g%c", result.data[i * result.shape[1] + k], k + 1 < result.shape[1] ? ' ' : '\n');
    }
  }
  free(result.data);
  CinnLibraryRelease(self);
  CinnLibraryClose(library);
  return 0;
}
