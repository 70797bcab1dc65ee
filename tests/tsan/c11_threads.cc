// C11 threads on top of POSIX threads, for programs under the thread sanitizer.
//
// librdkafka starts its threads with thrd_create and locks with mtx_lock, which the sanitizer does not know: it crashes
// in the first such thread. Defined here, the program's own definitions take precedence over glibc's, whose types are
// the POSIX ones under other names.
#include <pthread.h>
#include <threads.h>

#include <cerrno>
#include <ctime>
#include <memory>

namespace {

static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t));
static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t));
static_assert(sizeof(thrd_t) == sizeof(pthread_t));

pthread_mutex_t* posix(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }
pthread_cond_t* posix(cnd_t* condition) { return reinterpret_cast<pthread_cond_t*>(condition); }

int result_of(int code) {
  switch (code) {
    case 0:
      return thrd_success;
    case EBUSY:
      return thrd_busy;
    case ETIMEDOUT:
      return thrd_timedout;
    case ENOMEM:
      return thrd_nomem;
    default:
      return thrd_error;
  }
}

struct Start {
  thrd_start_t function;
  void* argument;
};

void* run(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  const int result = start->function(start->argument);
  return reinterpret_cast<void*>(static_cast<long>(result));
}

}  // namespace

extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  auto start = std::make_unique<Start>(Start{.function = function, .argument = argument});
  const int code = pthread_create(thread, nullptr, run, start.get());
  if (code == 0) (void)start.release();
  return result_of(code);
}

int thrd_join(thrd_t thread, int* result) {
  void* returned = nullptr;
  const int code = pthread_join(thread, &returned);
  if (code == 0 && result != nullptr) *result = static_cast<int>(reinterpret_cast<long>(returned));
  return result_of(code);
}

int thrd_detach(thrd_t thread) { return result_of(pthread_detach(thread)); }

int mtx_init(mtx_t* mutex, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  if ((type & mtx_recursive) != 0) pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  const int code = pthread_mutex_init(posix(mutex), &attributes);
  pthread_mutexattr_destroy(&attributes);
  return result_of(code);
}
int mtx_lock(mtx_t* mutex) { return result_of(pthread_mutex_lock(posix(mutex))); }
int mtx_trylock(mtx_t* mutex) { return result_of(pthread_mutex_trylock(posix(mutex))); }
int mtx_unlock(mtx_t* mutex) { return result_of(pthread_mutex_unlock(posix(mutex))); }
void mtx_destroy(mtx_t* mutex) { pthread_mutex_destroy(posix(mutex)); }

int cnd_init(cnd_t* condition) { return result_of(pthread_cond_init(posix(condition), nullptr)); }
int cnd_signal(cnd_t* condition) { return result_of(pthread_cond_signal(posix(condition))); }
int cnd_broadcast(cnd_t* condition) { return result_of(pthread_cond_broadcast(posix(condition))); }
int cnd_wait(cnd_t* condition, mtx_t* mutex) { return result_of(pthread_cond_wait(posix(condition), posix(mutex))); }
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* until) {
  return result_of(pthread_cond_timedwait(posix(condition), posix(mutex), until));
}
void cnd_destroy(cnd_t* condition) { pthread_cond_destroy(posix(condition)); }

}  // extern "C"
