// SPDX-License-Identifier: Apache-2.0
#include "exits/known_reasons.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace nacre::exits {
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
  std::string text(trim(err));
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char each) { return std::tolower(each); });
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
