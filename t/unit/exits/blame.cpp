// SPDX-License-Identifier: Apache-2.0
#include "exits/blame.hpp"

#include "catch.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::exits;  // NOLINT
using value::WaitStatus;

namespace {

Origin of_words(std::string_view err) { return origin_of(Record::of(WaitStatus::exited(1)), err); }
Origin of_signal(int signum, std::string_view err = "") {
  return origin_of(Record::of(WaitStatus::killed(signum)), err);
}

FailureFacts failure(value::Idset::Id rank, const char* record, Origin origin, double at, std::uint32_t clock = 0,
                     double uncertainty = 0) {
  FailureFacts out{rank, *Record::parse(record)};
  out.origin = origin;
  out.at = at;
  out.clock = clock;
  out.uncertainty = uncertainty;
  return out;
}

struct Found {
  value::Idset::Id rank;
  bool is_certain;
  std::string others;
  bool operator==(const Found&) const = default;
};
Found found(const std::vector<FailureFacts>& all) {
  Blame blame = first_of(all);
  return {all[blame.first].rank, blame.is_certain, blame.others.str()};
}

constexpr Origin kPeer = Origin::peer;
constexpr Origin kUnknown = Origin::unknown;
constexpr Origin kOwn = Origin::own;

}  // namespace

TEST_CASE("a signal says where a failure came from") {
  for (int signum : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGKILL}) CHECK(of_signal(signum, "Broken pipe\n") == kOwn);
  CHECK(of_signal(SIGPIPE) == kPeer);
  CHECK(of_signal(SIGTERM) == kUnknown);
  CHECK(of_signal(SIGABRT) == kUnknown);
  CHECK(of_signal(SIGABRT, "a.out: a.c:7: main: Assertion `x' failed.\n") == kOwn);
  CHECK(of_signal(SIGABRT,
                  "terminate called after throwing an instance of 'gloo::IoException'\n"
                  "  what():  [pair.cc:525] Read error [::1]:3: Connection reset by peer\n") == kPeer);
  CHECK(origin_of(Record::not_started(127), "") == kOwn);
  CHECK(origin_of(Record::lost(), "") == kUnknown);
}

TEST_CASE("what has lost a connection says so: libc, MPI, UCX, NCCL, gloo, languages") {
  for (const char* words :
       {"recv: Connection reset by peer", "write: Broken pipe", "read: Transport endpoint is not connected",
        "tcp_tx: rank 3: timed out", "Error: unexpected EOF", "read tcp 127.0.0.1:5: i/o timeout",
        "MPIDI_OFI_handle_cq_error(1094): OFI poll failed (Connection reset by peer)",
        "Fatal error in PMPI_Barrier: communication error with rank 3",
        "[n1:7] btl_tcp_endpoint.c:625 An MPI communication peer process has unexpectedly disconnected.",
        "MPI_ERR_PROC_FAILED: Process FailureFacts", "ucp_ep: Endpoint timeout",
        "NCCL WARN socketProgress: Connection closed by remote peer n3<4>", "ncclRemoteError: A call failed",
        "RuntimeError: [pair.cc:534] Connection closed by peer [127.0.0.1]:4", "failed to recv, got 0 bytes",
        "Err: UnexpectedEof", "rpc error: code = DEADLINE_EXCEEDED"}) {
    INFO(words);
    CHECK(of_words(std::string("step 7\n") + words + "\n") == kPeer);
  }
}

TEST_CASE("what has failed by itself says so, or nothing") {
  CHECK(of_words("thread 'main' panicked at src/main.rs:4:5:\nindex out of bounds\n") == kOwn);
  CHECK(of_words("panic: assignment to entry in nil map\n") == kOwn);
  CHECK(of_words("") == kUnknown);
  CHECK(of_words("input.dat: No such file or directory\n") == kUnknown);
  // Long before its end
  std::string log = "warning: connection reset by peer, I try again\n";
  for (int step = 0; step < 20; ++step) log += "step\n";
  CHECK(of_words(log) == kUnknown);
}

TEST_CASE("of a traceback of Python its exception counts, and those that it came from") {
  const std::string frames =
      "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    recv(s)\n";
  CHECK(of_words(frames + "ValueError: connection reset\n") == kOwn);
  CHECK(of_words(frames + "RuntimeError: no such layer\n") == kOwn);
  CHECK(of_words(frames + "ConnectionResetError: [Errno 104] Connection reset by peer\n") == kPeer);
  CHECK(of_words(frames + "EOFError\n") == kPeer);
  CHECK(of_words(frames + "RuntimeError: NCCL error\nLast error:\nConnection closed by remote peer\n") == kPeer);
  CHECK(
      of_words("[rank3]: Traceback (most recent call last):\n[rank3]:   File \"a.py\"\n[rank3]: KeyError: 'x'\n") ==
      kOwn);
  // Frames are no words, and text after a task's own exception does not belong to it.
  CHECK(of_words("Traceback (most recent call last):\n    raise_if_timed_out()  # broken pipe\nTypeError: 3\n") ==
        kOwn);
  CHECK(of_words(frames + "ValueError: 3\nwarning: Connection closed by peer\n") == kOwn);
  // A chain, and none
  CHECK(of_words(frames +
                 "BrokenPipeError: [Errno 32] Broken pipe\n\nDuring handling of the above exception, another "
                 "exception occurred:\n\n" +
                 frames + "RuntimeError: step 3 failed\n") == kPeer);
  CHECK(of_words(frames + "BrokenPipeError: [Errno 32] Broken pipe\nI go on\n" + frames + "RuntimeError: 3\n") ==
        kOwn);
  CHECK(of_words(frames + "ZeroDivisionError: 1\nException ignored in: <_io.TextIOWrapper>\n" + frames +
                 "BrokenPipeError: [Errno 32] Broken pipe\n") == kOwn);
  CHECK(of_words(frames + "KeyboardInterrupt\n") == kUnknown);
}

TEST_CASE("the error file counts before the rest") {
  Record one = Record::of(WaitStatus::exited(1));
  CHECK(origin_of(one, "Connection reset by peer", R"({"message": "no dataset"})") == kOwn);
  CHECK(origin_of(one, "", R"({"message": "Connection closed by peer"})") == kPeer);
}

TEST_CASE("one alone is certain unless it looks like a victim") {
  CHECK(found({failure(3, "x1", kUnknown, 5)}) == Found{3, true, ""});
  CHECK(found({failure(3, "s11", kOwn, 5)}) == Found{3, true, ""});
  CHECK(found({failure(3, "s6+", kUnknown, 5)}) == Found{3, false, ""});
  CHECK(found({failure(3, "s6", kOwn, 5)}) == Found{3, true, ""});
  CHECK(found({failure(3, "x1", kPeer, 5)}) == Found{3, false, ""});
}

TEST_CASE("those that lost another are not the first, though they died before it") {
  std::vector<FailureFacts> all{failure(0, "x1", kPeer, 5.00), failure(2, "x1", kPeer, 5.01),
                                failure(1, "x1", kOwn, 5.30)};
  CHECK(found(all) == Found{1, false, ""});
  all[2].at = 4.99;  // its last words came before
  CHECK(found(all) == Found{1, true, "0,2"});
  all[2].origin = kUnknown;
  CHECK(found(all) == Found{1, true, "0,2"});
  all[2].at = 40;  // another time, another cause
  CHECK(found(all) == Found{0, false, "2"});
}

TEST_CASE("times of two clocks count as far as they are known") {
  std::vector<FailureFacts> all{failure(0, "x1", kPeer, 5.010, 1, 0.02), failure(1, "s11", kOwn, 5.000)};
  CHECK(found(all) == Found{1, false, "0"});
  all[0].uncertainty = 0.002;
  CHECK(found(all) == Found{1, true, "0"});
}

TEST_CASE("failures of their own are certain only where they are apart") {
  CHECK(found({failure(0, "x3", kUnknown, 5.0), failure(1, "x9", kUnknown, 5.4)}) == Found{0, true, ""});
  CHECK(found({failure(0, "x3", kUnknown, 5.4), failure(1, "x9", kUnknown, 5.0)}) == Found{1, true, ""});
  CHECK(found({failure(0, "x3", kUnknown, 5.2), failure(1, "x9", kUnknown, 5.0)}) == Found{1, false, ""});
  CHECK(found({failure(0, "s11", kOwn, 5.0), failure(1, "s11", kOwn, 5.1)}) == Found{0, false, ""});
}

TEST_CASE("of one instant, by the way of the lowest rank, and of that way the first by the kernel") {
  for (double shift : {-0.02, 0.0, 0.02}) {
    CHECK(found({failure(2, "x3", kUnknown, 5 + shift), failure(1, "x2", kUnknown, 5),
                 failure(3, "x4", kUnknown, 5)}) == Found{1, false, "2-3"});
  }
  std::vector<FailureFacts> all{failure(0, "x1", kUnknown, 5), failure(1, "x1", kUnknown, 5),
                                failure(2, "x1", kUnknown, 5)};
  CHECK(found(all).rank == 0);
  all[0].order = 3;
  all[1].order = 2;
  all[2].order = 1;
  CHECK(found(all) == Found{2, false, "0-1"});
}

TEST_CASE("of one instant, one with a failure of its own, or the one that is unlike all others") {
  CHECK(found({failure(0, "x1", kUnknown, 5), failure(1, "x1", kOwn, 5.01)}).rank == 1);
  CHECK(found({failure(0, "x1", kOwn, 5.01), failure(1, "x7", kUnknown, 5), failure(2, "x1", kOwn, 5.02)}).rank ==
        1);
}

TEST_CASE("who has ended the job is not the first if it has only lost another") {
  FailureFacts own = failure(1, "x1", kOwn, 5.02);
  CHECK(outweighs(own, failure(0, "x1", kPeer, 5)));
  CHECK(outweighs(own, failure(0, "x1", kUnknown, 5)));
  CHECK_FALSE(outweighs(own, failure(0, "x1", kUnknown, 5.2)));
  CHECK_FALSE(outweighs(own, failure(0, "s11", kOwn, 5)));
  CHECK_FALSE(outweighs(failure(1, "x1", kPeer, 5), failure(0, "x1", kPeer, 5)));
}

TEST_CASE("what is not certain is said so") {
  value::Idset others = value::Idset::range(3, 4);
  CHECK(doubt_of(true, kPeer, others).empty());
  CHECK(doubt_of(false, kOwn, others) == "; task 3-4 failed at about the same time");
  CHECK(doubt_of(false, kPeer, others) == "; its last words speak of another, so it may not be the first");
  CHECK(doubt_of(false, kOwn, {}).empty());
  for (Origin each : {kPeer, kUnknown, kOwn}) CHECK(origin_named(name_of(each)) == each);
  CHECK_FALSE(origin_named("nobody"));
}

namespace {

std::string reason_of(std::string_view err) {
  const KnownReason* reason = reason_in(err);
  return std::string(reason != nullptr ? reason->name : "");
}

// What programs write, by the reason that it stands for.
constexpr std::pair<const char*, const char*> kMessages[] = {
    {"gpu-lost", "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
    {"gpu-lost", "[ 7.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3"},
    {"gpu-lost",
     "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this "
     "GPU"},
    {"gpu-ecc",
     "NVRM: Xid (PCI:0000:1a:00): 48, pid=7, An uncorrectable double bit error (DBE) has been detected on GPU"},
    {"gpu-ecc",
     "NVRM: Xid (PCI:0000:1a:00): 63, pid=7, Row Remapper: New row marked for remapping, reset gpu to activate."},
    {"gpu-ecc", "NVRM: Xid (PCI:0000:1a:00): 64, pid=7, Row Remapper: Failed to remap"},
    {"gpu-ecc", "NVRM: Xid (PCI:0000:1a:00): 94, pid=7, Contained: CE User Channel (0x9). RST: No, D-RST: No"},
    {"gpu-ecc", "NVRM: Xid (PCI:0000:1a:00): 95, pid=7, Uncontained: LTC TAG"},
    {"gpu-ecc", "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
    {"gpu-ecc", "cudaErrorECCUncorrectable: uncorrectable"},
    {"gpu-ecc", "hipErrorECCNotCorrectable"},
    {"gpu-memory",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total "
     "capacity)"},
    {"gpu-memory",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.1 "
     "GiB"},
    {"gpu-memory", "torch.OutOfMemoryError: Tried to allocate 2.00 GiB"},
    {"gpu-memory", "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB"},
    {"gpu-memory", "RuntimeError: CUDA error: out of memory"},
    {"gpu-memory", "RuntimeError: HIP error: out of memory"},
    {"gpu-memory", "allocating 7000.00 MiB on device 0: cudaMalloc failed: out of memory"},
    {"gpu-memory", "n3:7:7 [0] transport.cc:34 NCCL WARN Cuda failure 2 'out of memory'"},
    {"gpu-memory", "pycuda._driver.MemoryError: cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"},
    {"gpu-memory", "cudaErrorMemoryAllocation: the API call failed"},
    {"gpu-memory", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
    {"gpu-memory", "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"},
    {"gpu-memory",
     "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 "
     "bytes."},
    {"gpu-memory",
     "ResourceExhaustedError: OOM when allocating tensor with shape[64,1024] and type float on /job:localhost"},
    {"gpu-memory", "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes"},
    {"gpu-assert", "RuntimeError: CUDA error: device-side assert triggered"},
    {"gpu-assert", "cudaErrorAssert"},
    {"gpu-access", "RuntimeError: CUDA error: an illegal memory access was encountered"},
    {"gpu-access", "cudaErrorIllegalAddress"},
    {"gpu-access", "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {"gpu-access", "cudaErrorMisalignedAddress"},
    {"gpu-access", "CUDA error: misaligned address"},
    {"gpu-access",
     "Memory access fault by GPU node-4 (Agent handle: 0x55d) on address 0x7f. Reason: Page not present"},
    {"gpu-access", "NVRM: Xid (PCI:0000:3b:00): 13, pid=7, Graphics SM Warp Exception on (GPC 0, TPC 1)"},
    {"gpu-access", "NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, Ch 00000008, MMU Fault"},
    {"gpu-driver", "Failed to initialize NVML: Driver/library version mismatch"},
    {"gpu-driver", "CUDA driver version is insufficient for CUDA runtime version"},
    {"gpu-driver", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."},
    {"gpu-driver", "forward compatibility was attempted on non supported HW"},
    {"gpu-driver", "system has unsupported display driver / cuda driver combination"},
    {"gpu-driver", "the provided PTX was compiled with an unsupported toolchain."},
    {"gpu-driver", "RuntimeError: CUDA error: no kernel image is available for execution on the device"},
    {"gpu-busy", "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"},
    {"gpu-busy", "CUDA error: CUDA-capable device(s) is/are busy or unavailable"},
    {"gpu-busy", "cudaErrorDevicesUnavailable"},
    {"gpu-busy", "cudaErrorSystemNotReady"},
    {"gpu-busy", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"},
    {"no-gpu", "RuntimeError: CUDA error: no CUDA-capable device is detected"},
    {"no-gpu", "RuntimeError: No CUDA GPUs are available"},
    {"no-gpu", "RuntimeError: No HIP GPUs are available"},
    {"no-gpu", "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU"},
    {"no-gpu", "cudaErrorNoDevice"},
    {"no-gpu", "CUDA_ERROR_NO_DEVICE"},
    {"no-gpu", "RuntimeError: CUDA error: invalid device ordinal"},
    {"no-gpu", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."},
    {"shared-memory",
     "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory "
     "(shm)."},
    {"shared-memory", "RuntimeError: unable to write to file </torch_123_456_0>: No space left on device (28)"},
    {"shared-memory", "OSError: [Errno 28] No space left on device: '/dev/shm/x'"},
    {"shared-memory",
     "n3:7:7 [0] shmutils.cc:81 NCCL WARN Error while creating shared memory segment nccl-7 (size 9637888)"},
    {"host-memory",
     "RuntimeError: [enforce fail at alloc_cpu.cpp:83] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to allocate 8000 bytes"},
    {"host-memory",
     "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (1000000000,)"},
    {"host-memory", "terminate called after throwing an instance of 'std::bad_alloc'"},
    {"host-memory", "RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed. "},
    {"host-memory", "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space"},
    {"gpu-error", "RuntimeError: CUDA error: unspecified launch failure"},
    {"gpu-error", "RuntimeError: HIP error: invalid argument"},
    {"gpu-error",
     "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.19.3"},
    {"gpu-error", "n3:7:7 [0] init.cc:1 NCCL WARN Cuda failure 1 'invalid argument'"},
    {"link-down",
     "n3:7:9 [0] ibvwrap.h:187 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out"},
    {"link-down",
     "NCCL WARN NET/IB : Got completion from peer 10.0.0.2<49152> with error 12, opcode 0, len 0, vendor err 129"},
    {"link-down", "NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"},
    {"link-down", "mlx5: n3: got completion with error: local catastrophic error"},
    {"link-down", "status IBV_WC_RETRY_EXC_ERR"},
    {"link-down", "ib_mlx5_log.c:171 Transport retry count exceeded on mlx5_0:1/RoCE"},
    {"link-down", "NVRM: Xid (PCI:0000:3b:00): 74, pid=7, NVLink: fatal error detected on link 2"},
    {"link-down", "CUDA reports: uncorrectable NVLink error detected during the execution"},
    {"peer-closed",
     "n3:7:9 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer n4<41000>"},
    {"peer-closed",
     "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
     "[127.0.0.1]:4"},
    {"peer-closed", "NCCL WARN Call to recv from 10.0.0.2<4> failed : Connection reset by peer"},
    {"peer-closed", "NCCL WARN socketProgressOpt: Call to send failed : Broken pipe"},
    {"peer-closed", "gloo/transport/tcp/pair.cc:598 Read error [10.0.0.2]:3: Connection reset by peer"},
    {"peer-closed", "RuntimeError: [pair.cc:598] Read error [10.0.0.2]:3: Connection reset by peer"},
    {"peer-closed", "gloo::IoException: Application timeout caused pair closure"},
    {"peer-closed", "RuntimeError: [pair.cc:144] Application timeout caused pair closure"},
    {"peer-closed", "ncclSystemError: it may be that a remote process exited or there was a network error"},
    {"peer-closed", "ncclRemoteError: A call failed possibly due to a network error"},
    {"peer-closed", "[W TCPStore.cpp:106] sendBytes failed on SocketImpl(fd=3): Broken pipe"},
    {"peer-closed", "[c10d] TCPStore: recvVector failed: Connection reset by peer"},
    {"peer-closed", "recvValue failed on SocketImpl(fd=55): failed to recv, got 0 bytes"},
    {"unreachable", "NCCL WARN Connect to 10.0.0.2<48443> failed : Connection refused"},
    {"unreachable", "NCCL INFO Call to connect returned No route to host, retrying"},
    {"unreachable", "NCCL WARN Call to connect to 10.0.0.2<4> failed : Software caused connection abort"},
    {"unreachable", "socketStartConnect: Connect to 10.0.0.2<48443> failed : Host is down"},
    {"unreachable",
     "[c10d] The client socket has failed to connect to [n1]:29500 (errno: 111 - Connection refused)."},
    {"unreachable", "[gloo/transport/tcp/pair.cc:208] connect [127.0.0.1]:4: Connection refused"},
    {"peer-missing",
     "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 3/4 clients joined."},
    {"peer-missing",
     "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect "
     "to (n1, 29500)."},
    {"peer-missing", "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"},
    {"timeout",
     "[rank3]:[E ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: "
     "WorkNCCL(SeqNum=133, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."},
    {"timeout", "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels"},
    {"timeout",
     "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:84] Timed out waiting 1800000ms for recv operation to "
     "complete"},
    {"timeout", "RuntimeError: Rank 1 failed to pass monitoredBarrier: monitored_barrier timed out"},
    {"timeout",
     "[E ProcessGroupNCCL.cpp:1375] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress"},
};

}  // namespace

TEST_CASE("what libraries, drivers and frameworks write stands for a reason") {
  std::set<std::string> seen;
  for (const auto& [reason, message] : kMessages) {
    CAPTURE(message);
    CHECK(reason_of(message) == reason);
    CHECK(reason_of(std::string("step 7\n[rank3]: ") + message + "\r\n  frame #0: x\n\n") == reason);
    seen.insert(reason);
  }
  for (const KnownReason& each : known_reasons()) {
    CAPTURE(each.name);
    CHECK(seen.contains(std::string(each.name)));
    CHECK(reason_named(each.name) == &each);
  }
  CHECK(reason_named("gpu") == nullptr);
}

TEST_CASE("what stands for none") {
  for (const char* message : {"", "\n\n", "step 7\n", "Connection reset by peer\n",
                              "requests.exceptions.ConnectionError: Connection refused",
                              "NVRM: Xid (PCI:0000:3b:00): 45, pid=7, Ch 00000008", "write: Broken pipe",
                              "exit at 79, xid", "timed out", "nccl\nconnection refused\n"}) {
    CAPTURE(message);
    CHECK(reason_in(message) == nullptr);
  }
  std::string log = "CUDA out of memory, I try again with less\n";
  for (int step = 0; step < 50; ++step) log += "step\n";
  CHECK(reason_in(log) == nullptr);
}

TEST_CASE("of several that which the others follow from") {
  CHECK(reason_of("NCCL WARN Connection closed by remote peer n3<4>\nCUDA error: an illegal memory access was "
                  "encountered\n") == "gpu-access");
  CHECK(reason_of("CUDA error: unspecified launch failure\nNVRM: Xid (PCI:0000:3b:00): 79, pid=7, GPU has fallen "
                  "off the bus.\n") == "gpu-lost");
  CHECK(reason_of("Watchdog caught collective operation timeout\nConnection closed by remote peer\n") ==
        "peer-closed");
}

TEST_CASE("a reason says whose failure it is, where other words would not") {
  const Record one = Record::of(value::WaitStatus::exited(1));
  std::string frames;
  for (int frame = 0; frame < 20; ++frame) frames += "frame #7: clone + 0x3f (0x7f in libc.so.6)\n";
  CHECK(origin_of(one, "Watchdog caught collective operation timeout\n" + frames) == Origin::peer);
  CHECK(origin_of(one, "NVRM: Xid (PCI:0000:3b:00): 79, pid=7\n" + frames) == Origin::own);
  CHECK(origin_of(one, "CUDA error: the launch timed out and was terminated\n") == Origin::own);
  CHECK(origin_of(one, "NET/IB : mlx5_0:1 Got async event : port error\n") == Origin::unknown);
  // Later words about another task do not hide it.
  CHECK(origin_of(one, "CUDA error: device-side assert triggered\nConnection closed by remote peer\n") ==
        Origin::own);
  // A task that has failed by itself has not only lost another.
  CHECK(origin_of(one,
                  "Traceback (most recent call last):\n  File \"a\"\nValueError: 3\nNCCL WARN Connection reset "
                  "by peer\n") == Origin::own);
}
