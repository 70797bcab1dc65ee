#include "cdc/process_metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace outbox {

namespace {

std::string metric(const char* name, const char* type, const char* help, double value) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", name, type, help, value);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double open_descriptors() {
  std::error_code error;
  double count = 0;
  for (auto entry = std::filesystem::directory_iterator("/proc/self/fd", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    ++count;
  }
  return count;
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Clock ticks after boot, field 22 of /proc/self/stat; the fields are counted from behind the command's name,
// which may hold blanks. /proc/stat has the time of the boot, but systemd's ProcSubset=pid hides it.
double start_time_seconds() {
  std::ifstream stat_file("/proc/self/stat");
  std::string stat{std::istreambuf_iterator<char>(stat_file), {}};
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  const double after_boot = std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) + after_boot;
}

}  // namespace

std::string process_metrics() {
  std::string out = metric("process_cpu_seconds_total", "counter", "Processor time used.", cpu_seconds());
  std::ifstream statm("/proc/self/statm");
  double virtual_pages = 0;
  double resident_pages = 0;
  if (statm >> virtual_pages >> resident_pages) {
    const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
    out += metric("process_virtual_memory_bytes", "gauge", "Virtual memory size.", virtual_pages * page);
    out += metric("process_resident_memory_bytes", "gauge", "Resident memory size.", resident_pages * page);
  }
  out += metric("process_open_fds", "gauge", "Open file descriptors.", open_descriptors());
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out += metric("process_max_fds", "gauge", "Largest number of open file descriptors.",
                  static_cast<double>(limit.rlim_cur));
  }
  static const double start = start_time_seconds();
  if (start > 0) {
    out += metric("process_start_time_seconds", "gauge", "Unix time at which the process started.", start);
  }
  return out;
}

}  // namespace outbox
