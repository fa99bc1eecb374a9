#include "runtime/timeline.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

namespace cinn_like {
namespace {

struct Event {
  std::string name;
  int64_t begin_ns, end_ns;
  long thread;
};
std::mutex mutex;
std::vector<Event>& Events() {
  static auto* events = new std::vector<Event>;
  return *events;
}

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      escaped += Cat("\\u00", absl::Hex(static_cast<int>(c), absl::kZeroPad2));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Nanoseconds as decimal microseconds, exactly.
std::string Micros(int64_t ns) { return Cat(ns / 1000, ".", absl::Dec(ns % 1000, absl::kZeroPad3)); }

}  // namespace

std::atomic<bool> Timeline::on_{false};

void Timeline::Start() {
  const std::lock_guard lock(mutex);
  Events().clear();
  on_.store(true, std::memory_order_relaxed);
}

void Timeline::Stop() { on_.store(false, std::memory_order_relaxed); }

int64_t Timeline::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Timeline::Record(std::string_view name, int64_t begin_ns, int64_t end_ns) {
  const std::lock_guard lock(mutex);
  Events().push_back({std::string(name), begin_ns, end_ns, syscall(SYS_gettid)});
}

std::string Timeline::ToJson() {
  const std::lock_guard lock(mutex);
  std::string json = "{\"traceEvents\":[";
  const char* separator = "\n";
  for (const Event& e : Events()) {
    json += Cat(separator, "{\"name\":\"", Escape(e.name), "\",\"ph\":\"X\",\"pid\":", getpid(), ",\"tid\":", e.thread,
                ",\"ts\":", Micros(e.begin_ns), ",\"dur\":", Micros(e.end_ns - e.begin_ns), "}");
    separator = ",\n";
  }
  return json + "\n]}\n";
}

Status Timeline::Write(const std::string& path) {
  const std::string json = ToJson();
  std::FILE* file = std::fopen(path.c_str(), "w");
  const bool written = file != nullptr && std::fwrite(json.data(), 1, json.size(), file) == json.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) {
    return absl::UnavailableError(Cat("can't write the timeline to ", path));
  }
  return absl::OkStatus();
}

}  // namespace cinn_like
