// Reads a small file whole: the configuration itself, and the secrets it points to.
#include "config/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace outbox {
namespace {

constexpr std::size_t kLargestSecret = 64 * 1024;

class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

BadFile cannot_read(int error) { return BadFile{std::string("cannot be read: ") + std::strerror(error)}; }

std::variant<std::string, BadFile> read_all(int descriptor, std::size_t limit) {
  std::string bytes;
  char buffer[16 * 1024];
  while (true) {
    const ssize_t count = ::read(descriptor, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(errno);
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(count));
    if (bytes.size() > limit) return BadFile{"is larger than " + std::to_string(limit / 1024) + " KiB"};
  }
}

}  // namespace

std::variant<std::string, BadFile> read_file(const std::string& path, std::size_t limit) {
  const File file(path, 0);
  if (file.descriptor() < 0) return cannot_read(errno);
  return read_all(file.descriptor(), limit);
}

std::variant<std::string, BadFile> read_secret_file(const std::string& path) {
  const File file(path, O_NONBLOCK);  // A pipe must not hold up the start.
  if (file.descriptor() < 0) return cannot_read(errno);
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) return cannot_read(errno);
  if (!S_ISREG(status.st_mode)) return BadFile{"is not a regular file"};
  if ((status.st_mode & S_IRWXO) != 0) {
    return BadFile{
        "is open to every user of this machine; chmod o= it (a Kubernetes secret: defaultMode "
        "0440)"};
  }
  auto content = read_all(file.descriptor(), kLargestSecret);
  auto* secret = std::get_if<std::string>(&content);
  if (!secret) return content;
  if (secret->ends_with('\n')) {
    secret->pop_back();
    if (secret->ends_with('\r')) secret->pop_back();
  }
  if (secret->empty()) return BadFile{"is empty"};
  if (secret->find('\0') != std::string::npos) return BadFile{"contains a NUL byte"};
  return content;
}

}  // namespace outbox
