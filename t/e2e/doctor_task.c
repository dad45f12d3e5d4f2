// SPDX-License-Identifier: Apache-2.0
//
// doctor_task WHAT [MILLISECONDS]: a task of a job that is in good health, or that hangs, for doctor_bench. Ranks
// talk by sockets sock.RANK in the working directory. Each rank makes a file there.RANK once it is, or is about to
// be, where the doctor is to find it. The rank BAD is the one that hangs.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BAD = 1 };

static int rank, size, own = -1;
static long period;  // milliseconds
static volatile int flag;
static volatile double result;

static void fail(const char* what) {
  perror(what);
  exit(3);
}

static void there(void) {
  char name[32];
  int file;
  snprintf(name, sizeof name, "there.%d", rank);
  if ((file = open(name, O_CREAT | O_WRONLY, 0600)) < 0) fail(name);
  close(file);
}

static void nap(long milliseconds) {
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Computes for a while, in a way that no optimiser removes.
static void add_up(long count) {
  for (long i = 1; i < count; ++i) result += 1.0 / (double)i;
}
static void multiply(long count) {
  for (long i = 1; i < count; ++i) result = result * 1.0000001 + (double)(i % 7);
}
static void sort_some(long count) {
  static int numbers[256];
  for (long times = 0; times < count / 4096 + 1; ++times) {
    for (int i = 0; i < 256; ++i) numbers[i] = rand();
    for (int i = 1; i < 256; ++i) {
      for (int k = i; k > 0 && numbers[k - 1] > numbers[k]; --k) {
        int other = numbers[k];
        numbers[k] = numbers[k - 1];
        numbers[k - 1] = other;
      }
    }
  }
}
static void compute(long milliseconds) {
  for (double end = now() + (double)milliseconds / 1e3; now() < end;) {
    add_up(20000);
    multiply(20000);
    sort_some(20000);
  }
}

// ---- sockets -------------------------------------------------------------------

static struct sockaddr_un address_of(int other) {
  struct sockaddr_un out = {.sun_family = AF_UNIX};
  snprintf(out.sun_path, sizeof out.sun_path, "sock.%d", other);
  return out;
}

static void listen_here(void) {
  struct sockaddr_un address = address_of(rank);
  if ((own = socket(AF_UNIX, SOCK_DGRAM, 0)) < 0) fail("socket");
  if (bind(own, (struct sockaddr*)&address, sizeof address) != 0) fail("bind");
}

static void tell(int other) {
  struct sockaddr_un address = address_of(other);
  while (sendto(own, "x", 1, 0, (struct sockaddr*)&address, sizeof address) != 1) {
    if (errno != ENOENT && errno != ECONNREFUSED && errno != EINTR) fail("sendto");
    nap(5);
  }
}

static void hear(void) {
  char byte;
  while (recv(own, &byte, 1, 0) != 1) {
    if (errno != EINTR) fail("recv");
  }
}

// ---- in good health ------------------------------------------------------------

// Ranks do different things.
static void do_compute(void) {
  void (*const ways[])(long) = {add_up, multiply, sort_some};
  there();
  for (;;) ways[period == 0 ? 0 : rank % 3](100000);
}

// A message goes round, and the rank that has it works for a while.
static void do_ring(void) {
  listen_here();
  there();
  if (rank == 0) tell(1 % size);
  for (;;) {
    hear();
    period < 20 ? nap(period) : compute(period);
    tell((rank + 1) % size);
  }
}

// Rank 0 gives work to the others, and waits for the results.
static void do_master(void) {
  listen_here();
  there();
  for (int i = 1; rank == 0 && i < size; ++i) tell(i);
  for (;;) {
    hear();
    if (rank != 0) {
      compute(period * rank);
      tell(0);
    } else {
      static int next;
      tell(1 + next++ % (size - 1));
    }
  }
}

static pthread_barrier_t steps;
static void* step_for_ever(void* of) {
  while (flag == 0) {
    compute((long)of % 2 == 0 ? period : period / 4);
    pthread_barrier_wait(&steps);
  }
  return of;
}
static void* work_for_ever(void* of) {
  while (flag == 0) compute(period);
  return of;
}
static pthread_mutex_t idle = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static void* wait_for_work(void* of) {
  pthread_mutex_lock(&idle);
  while (flag == 0) pthread_cond_wait(&more, &idle);
  pthread_mutex_unlock(&idle);
  return of;
}

// The first thread joins others: those of a step, independent ones, and on some ranks idle ones.
static void do_threads(void) {
  pthread_t threads[4];
  pthread_barrier_init(&steps, NULL, 2);
  pthread_create(&threads[0], NULL, step_for_ever, (void*)0);
  pthread_create(&threads[1], NULL, step_for_ever, (void*)1);
  pthread_create(&threads[2], NULL, rank % 2 == 0 ? wait_for_work : work_for_ever, NULL);
  there();
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

// A thread reads commands from a pipe that only its own process has, where one comes now and then.
static int commands[2];
static void* read_commands(void* of) {
  char byte;
  while (read(commands[0], &byte, 1) == 1) compute(5);
  return of;
}
static void do_commands(void) {
  pthread_t thread;
  if (pipe(commands) != 0) fail("pipe");
  pthread_create(&thread, NULL, read_commands, NULL);
  there();
  for (;;) {
    rank % 2 == 0 ? nap(period) : compute(period);
    if (write(commands[1], "x", 1) != 1) fail("write");
  }
}

// A child computes, and its parent waits for it.
static void do_children(void) {
  there();
  for (;;) {
    pid_t child = fork();
    if (child == 0) {
      compute(period * (rank + 1));
      _exit(0);
    }
    while (waitpid(child, NULL, 0) != child) continue;
  }
}

// ---- that hang -----------------------------------------------------------------

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void* lock_first(void* of) {
  pthread_mutex_lock(&first);
  return of;
}
static void* lock_both(void* of) {
  pthread_mutex_t* order[] = {of == NULL ? &first : &second, of == NULL ? &second : &first};
  pthread_mutex_lock(order[0]);
  pthread_barrier_wait(&both);
  pthread_mutex_lock(order[1]);
  return of;
}
static void* read_own_pipe(void* of) {
  char byte;
  if (read(commands[0], &byte, 1) != 1) fail("read");
  return of;
}
static void run(void* (*what)(void*), int count) {
  pthread_t threads[4];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, what, i == 0 ? NULL : &first);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static void hang_join(void) {
  pthread_mutex_lock(&first);
  run(lock_first, 1);
}
static void hang_order(void) {
  pthread_barrier_init(&both, NULL, 2);
  run(lock_both, 2);
}
static void hang_twice(void) {
  pthread_mutex_lock(&first);
  pthread_mutex_lock(&first);
}
static void hang_condition(void) { run(wait_for_work, 2); }
static void* wait_for_post(void* of) {
  static sem_t nobody;
  sem_wait(&nobody);
  return of;
}
static void hang_semaphore(void) { run(wait_for_post, 3); }
static void hang_upgrade(void) {
  pthread_rwlock_t lock;
  pthread_rwlock_init(&lock, NULL);
  pthread_rwlock_rdlock(&lock);
  pthread_rwlock_wrlock(&lock);
  // Some C libraries say that this would be a deadlock.
  pthread_mutex_lock(&first);
  pthread_mutex_lock(&first);
}
static void hang_thread_pipe(void) {
  if (pipe(commands) != 0) fail("pipe");
  run(read_own_pipe, 1);
}
static void hang_pipe(void) {
  if (pipe(commands) != 0) fail("pipe");
  read_own_pipe(NULL);
}
static void hang_full_pipe(void) {
  static char bytes[1 << 20];
  if (pipe(commands) != 0) fail("pipe");
  if (write(commands[1], bytes, sizeof bytes) < 0) fail("write");
}
static void hang_fifo(void) {
  if (mkfifo("fifo", 0600) != 0) fail("fifo");
  (void)!open("fifo", O_RDONLY);
}
static void hang_stop(void) { raise(SIGSTOP); }
static void hang_kernel(void) {
  if (vfork() == 0) {
    for (;;) pause();
  }
}
static void hang_child(void) {
  pid_t child;
  if (pipe(commands) != 0) fail("pipe");
  if ((child = fork()) == 0) read_own_pipe(NULL);
  waitpid(child, NULL, 0);
}
static void hang_poll(void) {
  int ends[2];
  struct pollfd wait = {.events = POLLIN};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fail("socketpair");
  wait.fd = ends[0];
  poll(&wait, 1, -1);
}
static void hang_file_lock(void) {
  int one = open("lock", O_CREAT | O_RDWR, 0600), two = open("lock", O_RDWR);
  flock(one, LOCK_EX);
  flock(two, LOCK_EX);
}
static void hang_signal(void) {
  sigset_t none;
  sigemptyset(&none);
  sigsuspend(&none);
}
static void hang_spin(void) {
  while (flag == 0) continue;
}
static void hang_naps(void) {
  struct stat about;
  while (stat("never", &about) != 0) nap(10);
}
static void hang_end(void) { exit(0); }

static const struct {
  const char* name;
  void (*run)(void);
} kHangs[] = {{"join", hang_join},
              {"order", hang_order},
              {"twice", hang_twice},
              {"condition", hang_condition},
              {"semaphore", hang_semaphore},
              {"upgrade", hang_upgrade},
              {"thread-pipe", hang_thread_pipe},
              {"pipe", hang_pipe},
              {"full-pipe", hang_full_pipe},
              {"fifo", hang_fifo},
              {"stop", hang_stop},
              {"kernel", hang_kernel},
              {"child", hang_child},
              {"poll", hang_poll},
              {"file-lock", hang_file_lock},
              {"signal", hang_signal},
              {"spin", hang_spin},
              {"naps", hang_naps},
              {"end", hang_end}};
static const struct {
  const char* name;
  void (*run)(void);
} kWell[] = {{"compute", do_compute}, {"ring", do_ring},         {"master", do_master},
             {"threads", do_threads}, {"commands", do_commands}, {"children", do_children}};

// hang WHAT: the others wait for BAD; hang-alone WHAT: they compute.
static void hang(const char* what, int others_wait) {
  listen_here();
  there();
  if (rank != BAD && others_wait) hear();
  if (rank != BAD) compute(1000000000);
  for (size_t i = 0; i < sizeof kHangs / sizeof *kHangs; ++i) {
    if (strcmp(what, kHangs[i].name) == 0) kHangs[i].run();
  }
  fprintf(stderr, "doctor_task: %s does not hang\n", what);
  exit(4);
}

int main(int argc, char** argv) {
  const char* text = getenv("FLUX_TASK_RANK");
  rank = atoi(text == NULL ? "0" : text);
  text = getenv("FLUX_JOB_SIZE");
  size = atoi(text == NULL ? "1" : text);
  if (argc < 3) return 2;
  if (strcmp(argv[1], "hang") == 0) hang(argv[2], 1);
  if (strcmp(argv[1], "hang-alone") == 0) hang(argv[2], 0);
  period = atol(argv[2]);
  for (size_t i = 0; i < sizeof kWell / sizeof *kWell; ++i) {
    if (strcmp(argv[1], kWell[i].name) == 0) kWell[i].run();
  }
  return 2;
}
