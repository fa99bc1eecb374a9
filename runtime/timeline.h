// A recorder of named spans, for looking at what ran when: off by default, then one relaxed load per span. Writes the
// Chrome trace format (chrome://tracing, Perfetto). Any thread may record.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "cinn_like/base/status.h"

namespace cinn_like {

class Timeline {
 public:
  static void Start();  // forgets what was recorded
  static void Stop();
  static bool IsOn() { return on_.load(std::memory_order_relaxed); }
  static void Record(std::string_view name, int64_t begin_ns, int64_t end_ns);
  static int64_t Now();  // ns of a steady clock

  static std::string ToJson();
  static Status Write(const std::string& path);

 private:
  static std::atomic<bool> on_;
};

// Records the time from here to the end of scope. `name` must outlive it.
class TimelineSpan {
 public:
  explicit TimelineSpan(std::string_view name) : name_(name), begin_(Timeline::IsOn() ? Timeline::Now() : -1) {}
  ~TimelineSpan() {
    if (begin_ >= 0) Timeline::Record(name_, begin_, Timeline::Now());
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  std::string_view name_;
  int64_t begin_;
};

}  // namespace cinn_like
