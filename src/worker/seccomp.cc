#include "worker/seccomp.h"

#include <linux/falloc.h>
#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace torus::worker {
namespace {

using Json = nlohmann::json;

// Names that this machine's libseccomp or architecture does not know are passed over by runc.
constexpr char kFiles[] = R"(
access chdir chmod chown chown32 chroot close close_range copy_file_range creat dup dup2 dup3
faccessat faccessat2 fadvise64 fadvise64_64 fchdir fchmod fchmodat fchmodat2 fchown
fchown32 fchownat fcntl fcntl64 fdatasync fgetxattr flistxattr flock fremovexattr fsetxattr fstat
fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futimesat getcwd getdents
getdents64 getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel
io_destroy io_getevents io_pgetevents io_setup io_submit ioctl lchown lchown32 lgetxattr link
linkat listxattr llistxattr _llseek lremovexattr lseek lsetxattr lstat lstat64 mkdir mkdirat mknod
mknodat name_to_handle_at newfstatat open openat openat2 pipe pipe2 pread64 preadv preadv2 pwrite64
pwritev pwritev2 read readahead readlink readlinkat readv removexattr rename renameat renameat2
rmdir sendfile sendfile64 setxattr splice stat stat64 statfs statfs64 statx symlink symlinkat sync
sync_file_range syncfs tee truncate truncate64 umask unlink unlinkat utime utimensat
utimensat_time64 utimes vmsplice write writev memfd_create memfd_secret cachestat)";
constexpr char kProcesses[] = R"(
arch_prctl brk capget capset execve execveat exit exit_group fork futex futex_time64 futex_waitv
get_mempolicy getcpu getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32
getitimer getpgid getpgrp getpid getppid getpriority getrandom getresgid getresgid32 getresuid
getresuid32 getrlimit get_robust_list getrusage getsid get_thread_area gettid getuid getuid32
ioprio_get ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self
madvise map_shadow_stack mbind membarrier mincore mlock mlock2 mlockall mmap mmap2 mprotect mremap
msync munlock munlockall munmap nanosleep pause pidfd_open pidfd_send_signal pkey_alloc pkey_free
pkey_mprotect prctl prlimit64 process_madvise process_mrelease process_vm_readv process_vm_writev
ptrace remap_file_pages restart_syscall rseq rt_sigaction rt_sigpending rt_sigprocmask
rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64 rt_tgsigqueueinfo
sched_getaffinity sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min
sched_getscheduler sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity
sched_setattr sched_setparam sched_setscheduler sched_yield seccomp set_mempolicy
set_mempolicy_home_node set_robust_list setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32
setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32
setresuid setresuid32 setreuid setreuid32 setrlimit setsid set_thread_area set_tid_address setuid
setuid32 sigaltstack signal signalfd signalfd4 sigprocmask sigreturn sigsuspend sysinfo tgkill time
times tkill ugetrlimit uname vfork wait4 waitid waitpid)";
constexpr char kTalk[] = R"(
accept accept4 alarm bind clock_adjtime clock_getres clock_getres_time64 clock_gettime
clock_gettime64 clock_nanosleep clock_nanosleep_time64 connect epoll_create epoll_create1
epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2
fanotify_mark getpeername getsockname getsockopt gettimeofday listen mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget
msgrcv msgsnd _newselect poll ppoll ppoll_time64 pselect6 pselect6_time64 recv recvfrom recvmmsg
recvmmsg_time64 recvmsg select semctl semget semop semtimedop semtimedop_time64 send sendmmsg
sendmsg sendto setsockopt shmat shmctl shmdt shmget shutdown socketpair timer_create
timer_delete timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64
timerfd_create timerfd_gettime timerfd_gettime64 timerfd_settime timerfd_settime64)";

// A vector: compilers differ on whether Json from {x} is x or a list of x.
Json Allow(const std::string& names, const std::vector<Json>& arguments = {}) {
  std::istringstream stream(names);
  Json list = Json::array();
  for (std::string name; stream >> name;) list.push_back(name);
  Json rule = {{"names", list}, {"action", "SCMP_ACT_ALLOW"}};
  if (!arguments.empty()) rule["args"] = arguments;
  return rule;
}

Json Argument(int index, uint64_t value, const char* operation, uint64_t second = 0) {
  Json argument = {{"index", index}, {"value", value}, {"op", operation}};
  if (second != 0 || std::string_view(operation) == "SCMP_CMP_MASKED_EQ")
    argument["valueTwo"] = second;
  return argument;
}

}  // namespace

Json SeccompProfile() {
  Json rules = {Allow(kFiles), Allow(kProcesses), Allow(kTalk)};
  // personality: those that change nothing for others (Linux, query, ADDR_NO_RANDOMIZE, 32 bit).
  for (const uint64_t value : {0x0ull, 0x8ull, 0x20000ull, 0x20008ull, 0x40000ull, 0xffffffffull})
    rules.push_back(Allow("personality", {Argument(0, value, "SCMP_CMP_EQ")}));
  // A nested namespace would give back capabilities that the VM does not have.
  constexpr uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                   CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP;
  rules.push_back(Allow("clone", {Argument(0, kNamespaces, "SCMP_CMP_MASKED_EQ", 0)}));
  // clone3's flags lie in memory, out of the filter's sight: libraries then fall back to clone.
  rules.push_back(
      {{"names", Json::array({"clone3"})}, {"action", "SCMP_ACT_ERRNO"}, {"errnoRet", ENOSYS}});
  // Space that is promised and not written would count for nothing on the host (disk.h): a disk
  // has holes to punch, and otherwise no fallocate, which programs are used to do without.
  constexpr uint64_t kPunchHole = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  rules.push_back(Allow("fallocate", {Argument(1, kPunchHole, "SCMP_CMP_EQ")}));
  rules.push_back({{"names", Json::array({"fallocate"})},
                   {"action", "SCMP_ACT_ERRNO"},
                   {"errnoRet", EOPNOTSUPP},
                   {"args", Json::array({Argument(1, kPunchHole, "SCMP_CMP_NE")})}});
  // The families that a VM has a use for. Any other would speak to hardware or the hypervisor, or
  // load a module of the host's kernel: a kernel without it answers so.
  for (const uint64_t family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    rules.push_back(Allow("socket", {Argument(0, family, "SCMP_CMP_EQ")}));
  rules.push_back({{"names", Json::array({"socket"})},
                   {"action", "SCMP_ACT_ERRNO"},
                   {"errnoRet", EAFNOSUPPORT},
                   {"args", Json::array({Argument(0, AF_NETLINK, "SCMP_CMP_GT")})}});
  // No list of architectures: the native one only, so no 32-bit door beside the filter.
  return {{"defaultAction", "SCMP_ACT_ERRNO"}, {"defaultErrnoRet", EPERM}, {"syscalls", rules}};
}

}  // namespace torus::worker
