// How much a test of many cases tries: sanitizers make each case ten times as slow and look at code, not at values.
#pragma once

namespace cinn_like {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kRoundsDivisor = 8;
#else
inline constexpr int kRoundsDivisor = 1;
#endif

// The number of random cases.
constexpr int Rounds(int n) { return (n + kRoundsDivisor - 1) / kRoundsDivisor; }

// Of listed cases, whether to try the one with this number.
constexpr bool IsTried(int number) { return number % kRoundsDivisor == 0; }

// Of listed cases, whether to look at one that is like those before: sanitizers see one of each kind.
constexpr bool IsSeen(int number) { return kRoundsDivisor == 1 || number == 0; }

}  // namespace cinn_like
