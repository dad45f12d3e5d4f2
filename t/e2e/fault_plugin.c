/* SPDX-License-Identifier: Apache-2.0
 *
 * For t/e2e/fault_matrix: a plugin that goes wrong at one point of a job, in one way; its conf says where and how.
 * Compiled as C++, it can throw too.
 *
 *   topic   the topic; "plugin.load" is flux_plugin_init itself
 *   way     see strike(); "none": does what a good plugin does, as on the shells that are to stay well
 *   struck  the file that is made first, so that the test knows that it came to this
 */
#define FLUX_SHELL_PLUGIN_NAME "fault"
#include <errno.h>
#include <fcntl.h>
#include <flux/shell.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __cplusplus
#include <stdexcept>
#endif

static const char* the_topic;
static const char* the_way;
static const char* the_file;

/* From now on these system calls fail, for all threads of this process and those that it starts. */
static int refuse(const unsigned* calls, unsigned count, int error) {
  struct sock_filter code[16];
  unsigned n = 0;
  const unsigned load = BPF_LD | BPF_W | BPF_ABS, equal = BPF_JMP | BPF_JEQ | BPF_K, result = BPF_RET | BPF_K;
  code[n++] = (struct sock_filter)BPF_STMT((unsigned short)load, offsetof(struct seccomp_data, nr));
  for (unsigned i = 0; i < count; ++i) {
    code[n++] = (struct sock_filter)BPF_JUMP((unsigned short)equal, calls[i], 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT((unsigned short)result, SECCOMP_RET_ERRNO | (unsigned)error);
  }
  code[n++] = (struct sock_filter)BPF_STMT((unsigned short)result, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) return shell_log_errno("no_new_privs");
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
    return shell_log_errno("seccomp");
  return 0;
}

static int refuse_processes(void) {
  static const unsigned calls[] = {
#ifdef SYS_fork
      SYS_fork, SYS_vfork,
#endif
      SYS_clone, SYS_clone3};
  return refuse(calls, sizeof calls / sizeof *calls, EAGAIN);
}

static int refuse_directories(void) {
  static const unsigned calls[] = {SYS_chdir, SYS_fchdir};
  return refuse(calls, sizeof calls / sizeof *calls, ENOENT);
}

static int refuse_descriptors(void) {
  int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (next < 0) return shell_log_errno("/dev/null");
  close(next);
  struct rlimit limit = {(rlim_t)next, (rlim_t)next};
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : shell_log_errno("setrlimit");
}

static int refuse_failed(int error) {
  errno = error;
  return -1;
}

static int strike(void) {
  int file = open(the_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return shell_log_errno("%s", the_file);
  close(file);
  if (strcmp(the_way, "fails") == 0) return refuse_failed(EINVAL);
  if (strcmp(the_way, "cancels") == 0) return refuse_failed(ECANCELED);
  if (strcmp(the_way, "dies") == 0) shell_die(5, "no luck");
  if (strcmp(the_way, "raises") == 0) flux_shell_raise("odd", 0, "no luck");
  if (strcmp(the_way, "exits") == 0) exit(3);
  if (strcmp(the_way, "crashes") == 0) return *(volatile int*)8;
  if (strcmp(the_way, "killed") == 0) return kill(getpid(), SIGKILL);
  if (strcmp(the_way, "stops") == 0) return kill(getpid(), SIGSTOP);
  for (volatile int forever = strcmp(the_way, "loops") == 0; forever;) continue;
  while (strcmp(the_way, "hangs") == 0) pause();
  if (strcmp(the_way, "no-processes") == 0) return refuse_processes();
  if (strcmp(the_way, "no-descriptors") == 0) return refuse_descriptors();
  if (strcmp(the_way, "no-directory") == 0) return refuse_directories();
#ifdef __cplusplus
  if (strcmp(the_way, "throws") == 0) throw std::runtime_error("no luck");
#endif
  return 0;
}

/* The answer of taskmap.SCHEME: the map as it is. */
static int keep_map(flux_plugin_arg_t* args) {
  const char* map = NULL;
  if (flux_plugin_arg_unpack(args, FLUX_PLUGIN_ARG_IN, "{s:s}", "taskmap", &map) < 0) return -1;
  return flux_plugin_arg_pack(args, FLUX_PLUGIN_ARG_OUT, "{s:s}", "taskmap", map);
}

static int on_topic(flux_plugin_t* plugin, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)plugin;
  (void)data;
  int result = strcmp(the_way, "none") == 0 ? 0 : strike();
  if (result == 0 && strncmp(topic, "taskmap.", 8) == 0) result = keep_map(args);
  return result;
}

/* So that there is something to log. */
static int greet(flux_plugin_t* plugin, const char* topic, flux_plugin_arg_t* args, void* data) {
  (void)plugin;
  (void)args;
  (void)data;
  shell_log("in %s", topic);
  return 0;
}

int flux_plugin_init(flux_plugin_t* plugin) {
  if (flux_plugin_set_name(plugin, FLUX_SHELL_PLUGIN_NAME) < 0) return -1;
  if (flux_plugin_conf_unpack(plugin, "{s:s s:s s:s}", "topic", &the_topic, "way", &the_way, "struck", &the_file) <
      0)
    return -1;
  if (strcmp(the_topic, "plugin.load") == 0) return strcmp(the_way, "none") == 0 ? 0 : strike();
  if (strcmp(the_topic, "shell.log") == 0 && flux_plugin_add_handler(plugin, "shell.init", greet, NULL) < 0)
    return -1;
  return flux_plugin_add_handler(plugin, the_topic, on_topic, NULL);
}
