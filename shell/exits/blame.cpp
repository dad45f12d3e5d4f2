// SPDX-License-Identifier: Apache-2.0
#include "exits/blame.hpp"

#include "base/text.hpp"

namespace nacre::exits {
namespace {

// ---- words ---------------------------------------------------------------------------------------

constexpr std::size_t kLastLines = 40;    // of standard error that are looked at
constexpr std::size_t kPlainLines = 8;    // ... if there is no traceback
constexpr std::size_t kMessageLines = 6;  // of an exception

// Words, in lower case, of a process that has lost another one or waits for it in vain: texts of libc, of
// languages, and of the libraries by which parallel programs communicate.
constexpr auto kPeersWords = std::to_array<std::string_view>({
    "connection reset",
    "connection closed",
    "connection aborted",
    "connection refused",
    "connection lost",
    "connection timed out",
    "connection was closed",
    "connection broken",
    "lost connection",
    "closed the connection",
    "closed by peer",
    "reset by peer",
    "broken pipe",
    "epipe",
    "econnreset",
    "econnrefused",
    "econnaborted",
    "etimedout",
    "enotconn",
    "not connected",
    "no route to host",
    "host is down",
    "network is unreachable",
    "destination is unreachable",
    "connectionreseterror",
    "brokenpipeerror",
    "connectionabortederror",
    "connectionrefusederror",
    "eoferror",
    "unexpected eof",
    "unexpected end of file",
    "unexpectedeof",
    "early eof",
    "got eof",
    "end of file on connection",
    "incompletereaderror",
    "eof occurred",
    "failed to fill whole buffer",
    "timed out",
    "timeouterror",
    "timeout expired",
    "socket.timeout",
    "i/o timeout",
    "collective operation timeout",
    // MPI: MPICH, Open MPI; UCX, libfabric
    "communication error with rank",
    "proc_failed",
    "process failed",
    "peer process has",
    "remote process",
    "hung up",
    "endpoint timeout",
    "remote endpoint",
    "transport retry count exceeded",
    // NCCL, RCCL, gloo, PyTorch
    "remote peer",
    "ncclremoteerror",
    "socketprogress",
    "pair closure",
    "socket closed",
    "failed to recv, got 0 bytes",
    // RPC
    "deadline_exceeded",
    "peer disconnected",
});

constexpr auto kOwnWords = std::to_array<std::string_view>({
    "assertion",
    "terminate called",
    "panicked at",
    "panic:",
    "segmentation fault",
    "bus error",
    "illegal instruction",
    "floating point exception",
    "floating-point exception",
    "double free",
    "corrupted",
    "addresssanitizer",
    "runtime error:",
    "stack smashing",
    "bad_alloc",
    "out of memory",
    "program received signal",
    "caught signal",
    "error stop",
    "forrtl: severe",
    "exception in thread",
    "stack overflow",
    "core dumped",
    "unhandled exception",
    "cuda error",
});

// Exceptions that do not come from a connection, so that the text after them does not count.
constexpr auto kOwnExceptions = std::to_array<std::string_view>({
    "valueerror",          "typeerror",          "keyerror",           "indexerror",
    "assertionerror",      "zerodivisionerror",  "nameerror",          "attributeerror",
    "memoryerror",         "filenotfounderror",  "importerror",        "modulenotfounderror",
    "notimplementederror", "permissionerror",    "unicodedecodeerror", "recursionerror",
    "overflowerror",       "floatingpointerror", "arithmeticerror",    "syntaxerror",
    "lookuperror",         "unboundlocalerror",
});

constexpr std::string_view kTraceback = "traceback (most recent call last)";

template <typename Table>
bool has_any(std::string_view line, const Table& table) {
  return std::any_of(table.begin(), table.end(),
                     [&](std::string_view each) { return line.find(each) != line.npos; });
}

// The line without PyTorch's prefix for lines of a traceback: "[rank3]: ".
std::string_view bare(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.starts_with("[rank")) return line;
  std::size_t end = line.find("]:");
  if (end == line.npos) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool is_indented(std::string_view line) { return line.starts_with(' ') || line.starts_with('\t'); }

// In lower case, without empty lines, and without an exception that Python has only mentioned.
std::vector<std::string> last_lines(std::string_view err) {
  const std::string text = lower(err);
  std::vector<std::string> out;
  bool is_ignored = false;
  for (std::string_view each : split(text, '\n')) {
    std::string_view line = bare(each);
    if (trim(line).empty()) continue;
    if (line.starts_with("exception ignored in")) {
      is_ignored = true;
      continue;
    }
    bool goes_on = line.starts_with(kTraceback) || is_indented(line);
    if (is_ignored) {
      is_ignored = goes_on;  // the exception ends with its own line
      continue;
    }
    out.emplace_back(line);
  }
  if (out.size() > kLastLines) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(kLastLines));
  return out;
}

// The origin of the exceptions of a traceback, each of which the next one may have come from.
Origin origin_of_traceback(const std::vector<std::string>& lines, std::size_t from) {
  for (std::size_t i = from; i < lines.size(); ++i) {
    if (!lines[i].starts_with(kTraceback)) continue;
    std::size_t line = i + 1;
    while (line < lines.size() && is_indented(lines[line])) ++line;
    if (line == lines.size()) break;  // cut off
    if (lines[line].starts_with("keyboardinterrupt") || lines[line].starts_with("systemexit"))
      return Origin::unknown;
    bool is_own = has_any(std::string_view(lines[line]).substr(0, lines[line].find(':')), kOwnExceptions);
    std::size_t end = std::min(lines.size(), line + (is_own ? 1 : kMessageLines));
    for (; line < end && !lines[line].starts_with(kTraceback); ++line) {
      if (has_any(lines[line], kPeersWords) && !is_own) return Origin::peer;
    }
  }
  return Origin::own;
}

// From which line on the exceptions of the last traceback are one chain.
std::optional<std::size_t> last_traceback(const std::vector<std::string>& lines) {
  std::optional<std::size_t> out;
  bool is_chained = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("during handling of the above") || lines[i].starts_with("the above exception was"))
      is_chained = true;
    if (!lines[i].starts_with(kTraceback)) continue;
    if (!out || !is_chained) out = i;
    is_chained = false;
  }
  return out;
}

Origin origin_of_plain_words(const std::vector<std::string>& lines) {
  if (auto from = last_traceback(lines)) return origin_of_traceback(lines, *from);
  std::size_t least = lines.size() - std::min(lines.size(), kPlainLines);
  bool is_own = false;
  for (std::size_t i = lines.size(); i > least; --i) {
    if (has_any(lines[i - 1], kPeersWords)) return Origin::peer;
    is_own = is_own || has_any(lines[i - 1], kOwnWords);
  }
  return is_own ? Origin::own : Origin::unknown;
}

// What a reason says about the task itself counts, even if connections have closed after that.
Origin origin_of_words(std::string_view err) {
  const KnownReason* reason = reason_in(err);
  const Origin known = reason != nullptr ? reason->origin : Origin::unknown;
  if (known == Origin::own) return known;
  const Origin plain = origin_of_plain_words(last_lines(err));
  return plain != Origin::unknown ? plain : known;
}

// A crash, or a signal from outside of the job.
bool is_own_signal(int signum) {
  constexpr std::array kSignals{SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP, SIGKILL, SIGXCPU, SIGXFSZ};
  return std::find(kSignals.begin(), kSignals.end(), signum) != kSignals.end();
}

// ---- times ---------------------------------------------------------------------------------------

// Whether `a` has failed before `b`, whatever their clocks are.
bool precedes(const FailureFacts& a, const FailureFacts& b) {
  if (a.clock == b.clock && a.at == b.at) return a.order != 0 && a.order < b.order;
  double unknown = a.clock == b.clock ? 0 : a.uncertainty + b.uncertainty;
  return a.at + unknown < b.at;
}

double distance(const FailureFacts& a, const FailureFacts& b) {
  double unknown = a.clock == b.clock ? 0 : a.uncertainty + b.uncertainty;
  return std::max(0.0, std::abs(a.at - b.at) - unknown);
}

using Choice = std::vector<std::size_t>;

class Comparison {
 public:
  explicit Comparison(std::span<const FailureFacts> failures) : all_(failures) {}

  [[nodiscard]] std::size_t first() const {
    Choice left(all_.size());
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
    left = within(left, kCascade);
    // Failures that came from others cannot be their origin.
    if (Choice rest = but(left, Origin::peer); !rest.empty()) left = rest;
    left = within(left, kInstant);
    if (auto odd = odd_one(left)) return *odd;
    if (Choice own = only(left, Origin::own); !own.empty()) left = own;
    return of_one_instant(left);
  }

  [[nodiscard]] bool is_certain(std::size_t first) const {
    const FailureFacts& it = all_[first];
    const auto& status = it.record.status();
    bool is_silent_abort = status && status->is_signal() && status->signal() == SIGABRT && it.origin != Origin::own;
    if (it.origin == Origin::peer || is_silent_abort) return false;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const FailureFacts& other = all_[i];
      if (i == first) continue;
      bool is_later = precedes(it, other);
      if (!is_later || (other.origin != Origin::peer && distance(it, other) < kApart)) return false;
    }
    return true;
  }

  [[nodiscard]] value::Idset at_the_time_of(std::size_t first) const {
    value::Idset out;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (i != first && distance(all_[i], all_[first]) <= kInstant) out.insert(all_[i].rank);
    }
    return out;
  }

 private:
  [[nodiscard]] Choice only(const Choice& some, Origin origin) const {
    Choice out;
    for (std::size_t each : some) {
      if (all_[each].origin == origin) out.push_back(each);
    }
    return out;
  }
  [[nodiscard]] Choice but(const Choice& some, Origin origin) const {
    Choice out;
    for (std::size_t each : some) {
      if (all_[each].origin != origin) out.push_back(each);
    }
    return out;
  }
  // Those that failed within `time` of the earliest of them.
  [[nodiscard]] Choice within(const Choice& some, double time) const {
    auto earliest = *std::min_element(some.begin(), some.end(),
                                      [this](std::size_t a, std::size_t b) { return all_[a].at < all_[b].at; });
    Choice out;
    for (std::size_t each : some) {
      if (distance(all_[earliest], all_[each]) <= time) out.push_back(each);
    }
    return out;
  }
  // The one that failed in another visible way than all others, which failed alike: all others may have an
  // exception that only one task has caused, or one task alone has an exception.
  [[nodiscard]] std::optional<std::size_t> odd_one(const Choice& some) const {
    std::map<std::pair<Origin, std::string>, Choice> alike;
    for (std::size_t each : some) alike[{all_[each].origin, all_[each].record.str()}].push_back(each);
    if (some.size() < 3 || alike.size() != 2) return std::nullopt;
    const auto& [a, ones] = *alike.begin();
    const auto& [b, others] = *std::next(alike.begin());
    if (a.first == b.first) return std::nullopt;
    if (ones.size() == 1) return ones.front();
    return others.size() == 1 ? std::optional(others.front()) : std::nullopt;
  }
  // The way in which the lowest rank has ended, so that a job's exit code does not depend on moments; if several
  // ended like that, the first by the kernel.
  [[nodiscard]] std::size_t of_one_instant(const Choice& some) const {
    auto lowest = *std::min_element(some.begin(), some.end(),
                                    [this](std::size_t a, std::size_t b) { return all_[a].rank < all_[b].rank; });
    std::size_t out = lowest;
    for (std::size_t each : some) {
      if (all_[each].record == all_[lowest].record && precedes(all_[each], all_[out])) out = each;
    }
    return out;
  }

  std::span<const FailureFacts> all_;
};

}  // namespace

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::peer: return "peer";
    case Origin::own: return "own";
    case Origin::unknown: break;
  }
  return "unknown";
}

std::optional<Origin> origin_named(std::string_view name) {
  for (Origin each : {Origin::peer, Origin::unknown, Origin::own}) {
    if (name_of(each) == name) return each;
  }
  return std::nullopt;
}

Origin origin_of(const Record& record, std::string_view err, std::string_view error) {
  if (record.kind() == Record::Kind::lost) return Origin::unknown;
  if (record.kind() == Record::Kind::not_started) return Origin::own;
  const auto& status = record.status();
  const int signum = status && status->is_signal() ? status->signal() : 0;
  if (signum == SIGPIPE) return Origin::peer;
  if (is_own_signal(signum)) return Origin::own;
  if (!error.empty()) return has_any(lower(error), kPeersWords) ? Origin::peer : Origin::own;
  return origin_of_words(err);
}

Blame first_of(std::span<const FailureFacts> failures) { return blame_on(failures, Comparison(failures).first()); }

Blame blame_on(std::span<const FailureFacts> failures, std::size_t first) {
  Comparison all(failures);
  return {first, all.is_certain(first), all.at_the_time_of(first)};
}

bool outweighs(const FailureFacts& a, const FailureFacts& b) {
  if (b.origin == Origin::peer) return a.origin != Origin::peer && distance(a, b) <= kCascade;
  return a.origin == Origin::own && b.origin == Origin::unknown && distance(a, b) <= kInstant;
}

std::string doubt_of(bool is_certain, Origin origin, const value::Idset& others) {
  if (is_certain) return "";
  if (origin == Origin::peer) return "; its last words speak of another, so it may not be the first";
  return others.empty() ? "" : fmt::format("; task {} failed at about the same time", others.str());
}

namespace {

constexpr std::size_t kReasonLines = 40;  // that are looked at

constexpr auto kReasons = std::to_array<KnownReason>({
    {"gpu-lost", "a GPU has fallen off the bus: its host has to be looked at, and at least started anew",
     Origin::own},
    {"gpu-ecc", "a GPU has memory errors that it could not correct (ECC): its host has to be looked at",
     Origin::own},
    {"gpu-memory", "out of GPU memory", Origin::own},
    {"gpu-assert", "an assertion in a GPU kernel has failed, such as an index that is out of bounds", Origin::own},
    {"gpu-access", "a GPU kernel has accessed memory that it may not", Origin::own},
    {"gpu-driver", "the driver of the host does not fit the CUDA libraries, or the GPU does not fit the program",
     Origin::own},
    {"gpu-busy", "the GPU is in use by others, or not ready", Origin::own},
    {"no-gpu", "there is no such GPU for this task", Origin::own},
    {"shared-memory", "/dev/shm is full, or too small", Origin::own},
    {"host-memory", "out of memory of the host", Origin::own},
    {"gpu-error", "a call of CUDA or HIP has failed", Origin::own},
    {"link-down", "the link between the hosts, or between GPUs, has failed (InfiniBand, RoCE, NVLink)",
     Origin::unknown},
    {"peer-closed", "another rank has closed its connection, or has ended: see why that one failed", Origin::peer},
    {"unreachable", "another rank could not be reached: it has ended, or the network does not let this one through",
     Origin::peer},
    {"peer-missing", "other ranks did not come to the rendezvous in time", Origin::peer},
    {"timeout", "a collective was not completed in time: at least one rank has not entered it, or hangs",
     Origin::peer},
});

struct KnownText {
  std::string_view reason;
  std::string_view text;       // in lower case
  std::string_view also = {};  // in the same line
};

// Facts of the libraries' and drivers' messages. XID lines of the driver: "NVRM: Xid (PCI:0000:3b:00): 79, pid=1,
// ...".
constexpr auto kTexts = std::to_array<KnownText>({
    {"gpu-lost", "has fallen off the bus"},
    {"gpu-lost", "xid", "): 79,"},
    {"gpu-lost", "gpu is lost"},  // NVML
    {"gpu-ecc", "xid", "): 48,"},
    {"gpu-ecc", "xid", "): 63,"},
    {"gpu-ecc", "xid", "): 64,"},
    {"gpu-ecc", "xid", "): 94,"},
    {"gpu-ecc", "xid", "): 95,"},
    {"gpu-ecc", "uncorrectable ecc error"},
    {"gpu-ecc", "cudaerroreccuncorrectable"},
    {"gpu-ecc", "hiperroreccnotcorrectable"},
    {"gpu-memory", "cuda out of memory"},
    {"gpu-memory", "hip out of memory"},
    {"gpu-memory", "torch.outofmemoryerror"},
    {"gpu-memory", "cuda error: out of memory"},
    {"gpu-memory", "hip error: out of memory"},
    {"gpu-memory", "cudamalloc", "out of memory"},
    {"gpu-memory", "cuda failure", "out of memory"},  // NCCL
    {"gpu-memory", "cuda_error_out_of_memory"},
    {"gpu-memory", "cudaerrormemoryallocation"},
    {"gpu-memory", "cublas_status_alloc_failed"},
    {"gpu-memory", "cudnn_status_alloc_failed"},
    {"gpu-memory", "resource_exhausted", "out of memory"},  // XLA
    {"gpu-memory", "oom when allocating tensor"},           // TensorFlow
    {"gpu-memory", "cupy", "outofmemoryerror"},
    {"gpu-assert", "device-side assert"},
    {"gpu-assert", "cudaerrorassert"},
    {"gpu-access", "illegal memory access"},
    {"gpu-access", "cudaerrorillegaladdress"},
    {"gpu-access", "cuda_error_illegal_address"},
    {"gpu-access", "cudaerrormisalignedaddress"},
    {"gpu-access", "cuda error: misaligned address"},
    {"gpu-access", "memory access fault by gpu"},  // ROCm
    {"gpu-access", "xid", "): 13,"},
    {"gpu-access", "xid", "): 31,"},
    {"gpu-driver", "driver/library version mismatch"},  // NVML
    {"gpu-driver", "driver version is insufficient for cuda runtime"},
    {"gpu-driver", "nvidia driver on your system is too old"},
    {"gpu-driver", "forward compatibility was attempted on non supported"},
    {"gpu-driver", "unsupported display driver / cuda driver combination"},
    {"gpu-driver", "compiled with an unsupported toolchain"},
    {"gpu-driver", "no kernel image is available for execution"},
    {"gpu-busy", "devices are busy or unavailable"},
    {"gpu-busy", "cuda-capable device(s) is/are busy"},
    {"gpu-busy", "cudaerrordevicesunavailable"},
    {"gpu-busy", "cudaerrorsystemnotready"},
    {"gpu-busy", "system not yet initialized"},
    {"no-gpu", "no cuda-capable device"},
    {"no-gpu", "no cuda gpus are available"},
    {"no-gpu", "no hip gpus are available"},
    {"no-gpu", "no nvidia driver on your system"},
    {"no-gpu", "cudaerrornodevice"},
    {"no-gpu", "cuda_error_no_device"},
    {"no-gpu", "invalid device ordinal"},
    {"no-gpu", "couldn't communicate with the nvidia driver"},
    {"shared-memory", "insufficient shared memory"},
    {"shared-memory", "unable to write to file", "/torch_"},
    {"shared-memory", "/dev/shm", "no space left on device"},
    {"shared-memory", "nccl", "error while creating shared memory segment"},
    {"host-memory", "defaultcpuallocator"},  // "can't allocate memory", "not enough memory"
    {"host-memory", "unable to allocate", "for an array"},
    {"host-memory", "std::bad_alloc"},
    {"host-memory", "dataloader worker", "killed by signal: killed"},
    {"host-memory", "java.lang.outofmemoryerror"},
    {"gpu-error", "cuda error:"},
    {"gpu-error", "hip error:"},
    {"gpu-error", "unhandled cuda error"},
    {"gpu-error", "cuda failure"},
    {"link-down", "call to ibv_"},
    {"link-down", "net/ib", "got completion"},
    {"link-down", "got async event", "port error"},
    {"link-down", "local catastrophic error"},
    {"link-down", "ibv_wc_retry_exc_err"},
    {"link-down", "transport retry count", "exceeded"},
    {"link-down", "xid", "): 74,"},
    {"link-down", "nvlink error"},
    {"peer-closed", "connection closed by remote peer"},
    {"peer-closed", "connection closed by peer"},
    {"peer-closed", "nccl", "connection reset by peer"},
    {"peer-closed", "nccl", "broken pipe"},
    {"peer-closed", "gloo", "connection reset by peer"},
    {"peer-closed", "pair.cc", "connection reset by peer"},
    {"peer-closed", "gloo", "pair closure"},
    {"peer-closed", "pair.cc", "pair closure"},
    {"peer-closed", "remote process exited"},
    {"peer-closed", "ncclremoteerror"},
    {"peer-closed", "tcpstore", "broken pipe"},
    {"peer-closed", "tcpstore", "connection reset by peer"},
    {"peer-closed", "failed to recv, got 0 bytes"},
    {"unreachable", "nccl", "connection refused"},
    {"unreachable", "nccl", "no route to host"},
    {"unreachable", "nccl", "call to connect"},
    {"unreachable", "socketstartconnect", "failed"},
    {"unreachable", "client socket has failed to connect"},
    {"unreachable", "gloo", "connection refused"},
    {"peer-missing", "waiting for clients", "clients joined"},
    {"peer-missing", "client socket has timed out"},
    {"peer-missing", "rendezvoustimeouterror"},
    {"timeout", "collective operation timeout"},
    {"timeout", "some nccl operations have failed or timed out"},
    {"timeout", "timed out waiting", "operation to complete"},  // Gloo
    {"timeout", "monitored_barrier", "timed out"},
    {"timeout", "processgroupnccl", "watchdog got stuck"},
});

bool says(std::string_view line, const KnownText& known) {
  return line.find(known.text) != line.npos && line.find(known.also) != line.npos;
}

}  // namespace

std::span<const KnownReason> known_reasons() { return kReasons; }

const KnownReason* reason_named(std::string_view name) {
  const auto* found =
      std::find_if(kReasons.begin(), kReasons.end(), [&](const auto& each) { return each.name == name; });
  return found != kReasons.end() ? found : nullptr;
}

const KnownReason* reason_in(std::string_view err) {
  const std::string text = lower(trim(err));
  const std::vector<std::string_view> lines = split(text, '\n');
  const auto first = lines.end() - static_cast<std::ptrdiff_t>(std::min(lines.size(), kReasonLines));
  const KnownReason* out = nullptr;
  for (auto line = first; line != lines.end(); ++line) {
    for (const KnownText& known : kTexts) {
      if (!says(*line, known)) continue;
      const KnownReason* reason = reason_named(known.reason);
      if (out == nullptr || reason < out) out = reason;
    }
  }
  return out;
}

}  // namespace nacre::exits
