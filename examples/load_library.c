/* A graph as a shared library, loaded and called from C: what an embedder does, who ships libcinn_runtime.so and no
   compiler. Exits with 1 if a result is wrong.

     cinn_compile -o mlp.so examples/mlp.graph
     cc -I INCLUDE/cinn_like examples/load_library.c -L LIB -lcinn_runtime -lm
     ./a.out mlp.so */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/library.h"

enum { kRows = 7, kIn = 64, kOut = 128 };

static float x[kRows * kIn], w[kIn * kOut], g[kOut], b[kOut], y[kRows * kOut];

/* A contiguous tensor of f32 on the host. */
static DLTensor Tensor(float* data, int32_t ndim, int64_t* shape) {
  DLTensor t = {0};
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = ndim;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
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

static float Random(void) { return (float)rand() / (float)RAND_MAX - 0.5f; }

/* The largest relative difference from the same in doubles. */
static double Check(int rows) {
  double worst = 0;
  for (int i = 0; i < rows; ++i) {
    double row[kOut], sum = 0;
    for (int j = 0; j < kOut; ++j) {
      double a = b[j];
      for (int k = 0; k < kIn; ++k) a += (double)x[i * kIn + k] * w[k * kOut + j] * g[j];
      row[j] = exp(0.5 * a * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a))));
      sum += row[j];
    }
    for (int j = 0; j < kOut; ++j) worst = fmax(worst, fabs(y[i * kOut + j] * sum / row[j] - 1));
  }
  return worst;
}

static int Fail(const char* what) {
  fprintf(stderr, "load_library: %s: %s\n", what, CinnLibraryError());
  return 1;
}

int main(int argc, char** argv) {
  int64_t x_shape[] = {kRows, kIn}, w_shape[] = {kIn, kOut}, row_shape[] = {kOut}, y_shape[] = {kRows, kOut};
  DLTensor tensors[] = {Tensor(x, 2, x_shape), Tensor(w, 2, w_shape), Tensor(g, 1, row_shape), Tensor(b, 1, row_shape),
                        Tensor(y, 2, y_shape)};
  CinnValue args[5];
  for (int i = 0; i < 5; ++i) args[i] = Value(&tensors[i]);
  for (int i = 0; i < kRows * kIn; ++i) x[i] = Random();
  for (int i = 0; i < kIn * kOut; ++i) w[i] = Random();
  for (int i = 0; i < kOut; ++i) g[i] = 1 + Random(), b[i] = Random();
  CinnCallEnv env = {0};
  env.size = sizeof(env);
  env.device.device_type = kDLCPU;

  CinnLibrary* library;
  if (CinnLibraryOpen(argc > 1 ? argv[1] : "mlp.so", &library) != 0) return Fail("open");
  printf("%s", CinnLibraryDescription(library));
  const CinnFunctionPtr mlp = CinnLibraryLookup(library, "mlp");
  if (mlp == NULL) return Fail("lookup");

  /* The static parameters, once; then any number of calls, with any number of rows that the graph allows. */
  void* self;
  if (CinnLibraryPrepare(library, "mlp", &args[1], 3, &env, &self) != 0) return Fail("prepare");
  double error = 0;
  for (int rows = 1; rows <= kRows; ++rows) {
    x_shape[0] = y_shape[0] = rows;
    if (mlp(self, args, 5, &env) != 0) return Fail("mlp");
    error = fmax(error, Check(rows));
  }
  CinnLibraryRelease(self);
  CinnLibraryClose(library);
  printf("mlp from a library: largest relative error %.1e\n", error);
  return error < 1e-5 ? 0 : 1;
}
