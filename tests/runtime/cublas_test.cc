#include "runtime/cublas.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "runtime/device_api.h"
#include "runtime/last_error.h"

namespace cinn_like {
namespace {

CinnCallEnv Env(int device) {
  CinnCallEnv env{};
  env.size = sizeof(env);
  env.device = {kDLCUDA, device};
  return env;
}

TEST(Cublas, BadCallsAreErrorsBeforeAnyDriver) {
  const CinnCallEnv env = Env(0);
  const auto call = [&](int64_t m, int64_t n, int64_t k, MatmulSpec spec = {}) {
    return cinn_cublaslt_matmul(spec.Encode(), nullptr, nullptr, nullptr, nullptr, m, n, k, 1, k, n, n, 0, 0, 0, &env);
  };
  EXPECT_EQ(call(0, 4, 4), 0);
  EXPECT_LT(call(4, 4, 0), 0);
  EXPECT_STREQ(LastError(), "cublaslt matmul [1,4,0]x[1,0,4]: k = 0 is not positive");
  EXPECT_LT(call(-1, 4, 4), 0);
  EXPECT_STREQ(LastError(), "cublaslt matmul [1,-1,4]x[1,4,4]: a size is out of range");
  MatmulSpec bias;
  bias.bias = true;
  EXPECT_LT(call(4, 4, 4, bias), 0);
  EXPECT_STREQ(LastError(), "cublaslt matmul [1,4,4]x[1,4,4]: the bias is null");
  if (GetCudaDevice().ok()) return;
  EXPECT_LT(call(4, 4, 4), 0);
  EXPECT_TRUE(std::string(LastError()).starts_with("cublaslt matmul [1,4,4]x[1,4,4]: no CUDA driver: ")) << LastError();
}

// Storage in each dtype, by way of f32.
std::vector<char> Store(const std::vector<float>& values, DType t) {
  std::vector<char> bytes(values.size() * BytesOf(t));
  for (size_t i = 0; i < values.size(); ++i) {
    if (t == DType::kF32) {
      std::memcpy(&bytes[4 * i], &values[i], 4);
    } else if (t == DType::kF16) {
      const auto half = static_cast<_Float16>(values[i]);
      std::memcpy(&bytes[2 * i], &half, 2);
    } else {
      std::memcpy(&bytes[2 * i], reinterpret_cast<const char*>(&values[i]) + 2, 2);  // inputs are exact in bf16
    }
  }
  return bytes;
}
float Load(const std::vector<char>& bytes, size_t i, DType t) {
  float value = 0;
  if (t == DType::kF32) {
    std::memcpy(&value, &bytes[4 * i], 4);
  } else if (t == DType::kF16) {
    _Float16 half;
    std::memcpy(&half, &bytes[2 * i], 2);
    value = half;
  } else {
    std::memcpy(reinterpret_cast<char*>(&value) + 2, &bytes[2 * i], 2);
  }
  return value;
}

// Random products on `device`, against a float64 loop.
void CheckProducts(int device, unsigned seed) {
  DeviceApi& api = **GetCudaDevice();
  std::mt19937 random(seed);
  const CinnCallEnv env = Env(device);
  for (int round = 0; round < 60; ++round) {
    MatmulSpec spec;
    spec.dtype = std::vector{DType::kF32, DType::kF16, DType::kBF16}[random() % 3];
    spec.result = spec.dtype;
    spec.transpose_a = random() % 2;
    spec.transpose_b = random() % 2;
    spec.bias = random() % 2;
    spec.epilogue = static_cast<MatmulEpilogue>(random() % 3);
    const int64_t scale = spec.dtype == DType::kF32 ? 1 : 8;  // 16-bit kernels want 16-byte rows
    const int64_t m = scale * (1 + random() % 12), n = scale * (1 + random() % 12), k = scale * (1 + random() % 12);
    const int64_t batch = 1 + random() % 3;
    const int64_t lda = (spec.transpose_a ? m : k) + scale * (random() % 2);
    const int64_t ldb = (spec.transpose_b ? k : n) + scale * (random() % 2);
    const int64_t ldd = n + scale * (random() % 2);
    const int64_t stride_a = lda * (spec.transpose_a ? k : m);
    const int64_t stride_b = random() % 3 == 0 ? 0 : ldb * (spec.transpose_b ? n : k);  // 0: shared by the batch
    const int64_t stride_d = ldd * m;
    const auto numbers = [&](int64_t count) {
      std::vector<float> v(count);
      for (float& x : v) x = static_cast<float>(static_cast<int>(random() % 17) - 8) / 8;
      return v;
    };
    const std::vector<float> a = numbers(stride_a * batch), bias = numbers(n);
    const std::vector<float> b = numbers(ldb * (spec.transpose_b ? n : k) * batch);
    std::vector<char> d(stride_d * batch * BytesOf(spec.dtype));
    void* memory[4];
    const std::vector<char> host[4] = {Store(a, spec.dtype), Store(b, spec.dtype), Store(bias, spec.dtype), d};
    for (int i = 0; i < 4; ++i) {
      memory[i] = *api.Alloc(device, host[i].size(), nullptr);
      ASSERT_TRUE(api.Copy(device, memory[i], host[i].data(), host[i].size(), nullptr).ok());
    }
    ASSERT_EQ(cinn_cublaslt_matmul(spec.Encode(), memory[0], memory[1], spec.bias ? memory[2] : nullptr, memory[3], m,
                                   n, k, batch, lda, ldb, ldd, stride_a, stride_b, stride_d, &env),
              0)
        << LastError();
    ASSERT_TRUE(api.Copy(device, d.data(), memory[3], d.size(), nullptr).ok());
    ASSERT_TRUE(api.Synchronize(device, nullptr).ok());
    for (void* p : memory) api.Free(device, p);
    const double tolerance = spec.dtype == DType::kF32 ? 1e-5 : spec.dtype == DType::kF16 ? 2e-3 : 1.2e-2;
    for (int64_t z = 0; z < batch; ++z) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = spec.bias ? bias[j] : 0;
          for (int64_t l = 0; l < k; ++l) {
            sum += double{a[z * stride_a + (spec.transpose_a ? l * lda + i : i * lda + l)]} *
                   b[z * stride_b + (spec.transpose_b ? j * ldb + l : l * ldb + j)];
          }
          if (spec.epilogue == MatmulEpilogue::kRelu) sum = std::max(sum, 0.0);
          if (spec.epilogue == MatmulEpilogue::kGelu) {
            sum = 0.5 * sum * (1 + std::tanh(std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum)));
          }
          const double got = Load(d, z * stride_d + i * ldd + j, spec.dtype);
          ASSERT_NEAR(got, sum, tolerance * (1 + std::abs(sum)))
              << Name(spec.dtype) << " m=" << m << " n=" << n << " k=" << k << " spec " << spec.Encode();
        }
      }
    }
  }
}

TEST(Cublas, RandomProductsFromSeveralThreads) {
  const StatusOr<DeviceApi*> api = GetCudaDevice();
  if (!api.ok()) GTEST_SKIP() << api.status();
  void* library = dlopen("libcublasLt.so.13", RTLD_NOW);
  if (library == nullptr) library = dlopen("libcublasLt.so.12", RTLD_NOW);
  if (library == nullptr) GTEST_SKIP() << "no cuBLASLt on the loader's path";
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t) threads.emplace_back([&api, t] { CheckProducts(t % *(*api)->Count(), t); });
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace cinn_like
