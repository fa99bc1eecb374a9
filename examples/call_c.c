/* A graph as C99, called from C: what an embedder does, who has a C compiler and no cinn_like. Exits with 1 if a result
   is wrong.

     cinn_compile --target=c -o mlp.c examples/mlp.graph
     cc -I FOLDER_OF_MLP_C examples/call_c.c mlp.c -lm */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CINN_DECLARATIONS
#include <mlp.c>

enum { kRows = 7, kIn = 64, kOut = 128 };

static float x[kRows * kIn], w[kIn * kOut], g[kOut], b[kOut], y[kRows * kOut];

/* A contiguous tensor of f32 on the host. */
static DLTensor Tensor(float* data, int32_t ndim, int64_t* shape) {
  DLTensor t = {0};
  t.data = data;
  t.device.device_type = 1;
  t.ndim = ndim;
  t.dtype.code = 2;
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
static double Check(void) {
  double worst = 0;
  for (int i = 0; i < kRows; ++i) {
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

int main(void) {
  int64_t x_shape[] = {kRows, kIn}, w_shape[] = {kIn, kOut}, row_shape[] = {kOut}, y_shape[] = {kRows, kOut};
  DLTensor tensors[] = {Tensor(x, 2, x_shape), Tensor(w, 2, w_shape), Tensor(g, 1, row_shape), Tensor(b, 1, row_shape),
                        Tensor(y, 2, y_shape)};
  CinnValue args[5];
  for (int i = 0; i < 5; ++i) args[i] = Value(&tensors[i]);
  for (int i = 0; i < kRows * kIn; ++i) x[i] = Random();
  for (int i = 0; i < kIn * kOut; ++i) w[i] = Random();
  for (int i = 0; i < kOut; ++i) g[i] = 1 + Random(), b[i] = Random();

  /* The static parameters, once; then any number of calls. */
  mlp_state state = {{0}};
  int32_t code = mlp_prepare(&state, &args[1], 3, NULL);
  if (code == 0) code = mlp(&state, args, 5, NULL);
  mlp_release(&state);
  if (code != 0) {
    fprintf(stderr, "call_c: mlp returned %d\n", (int)code);
    return 1;
  }
  const double error = Check();
  printf("mlp in C: largest relative error %.1e\n", error);
  return error < 1e-5 ? 0 : 1;
}
