// A framework's session, from its creation to the bytes that it collects.
#include "tpu/device/profiler.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>

#include "tpu/device/trace.h"
#include "tpu/device/xspace.h"
#include "tpu/pjrt/profiler.h"
#include "tpu/program/wire.h"

namespace torus::tpu {
namespace {

// A framework calls one profiler's functions one after the other.
struct Session {
  XSpaceOptions options;
  bool wanted = true;  // devices are to be traced
  bool is_on = false;
  Trace trace;
  std::optional<std::string> space;  // what was asked for the size of
};

Session* FromPjrt(pjrt::Profiler* profiler) { return reinterpret_cast<Session*>(profiler); }

// An error is its status.
pjrt::ProfilerError* ToError(const Status& status) {
  return status.ok() ? nullptr : reinterpret_cast<pjrt::ProfilerError*>(new Status(status));
}
const Status* StatusOf(const pjrt::ProfilerError* error) {
  return reinterpret_cast<const Status*>(error);
}

void ErrorDestroy(pjrt::ProfilerErrorDestroyArgs* args) { delete StatusOf(args->error); }

void ErrorMessage(pjrt::ProfilerErrorMessageArgs* args) {
  args->message = StatusOf(args->error)->message().c_str();
  args->message_size = StatusOf(args->error)->message().size();
}

pjrt::ProfilerError* ErrorGetCode(pjrt::ProfilerErrorGetCodeArgs* args) {
  args->code = static_cast<int>(StatusOf(args->error)->code());
  return nullptr;
}

// An option that only a TPU's profiler has: what to trace. Ours has the host alone, and all.
bool IsHostOnly(std::string_view entry) {
  constexpr protozero::pbf_tag_type kKey = 1, kValue = 2, kStringValue = 1;
  const auto value = program::wire::FindBytes(entry, kValue).value_or("");
  return program::wire::FindBytes(entry, kKey) == "tpu_trace_mode" &&
         program::wire::FindBytes(value, kStringValue) == "TRACE_ONLY_HOST";
}

// tensorflow.ProfileOptions
void ReadOptions(std::string_view options, Session& session) {
  constexpr protozero::pbf_tag_type kDeviceTracerLevel = 3, kVersion = 5, kEnableHloProto = 7,
                                    kAdvancedConfiguration = 12;
  try {
    if (program::wire::FindInt(options, kVersion).value_or(0) == 0) return;  // none are given
    session.wanted = program::wire::FindInt(options, kDeviceTracerLevel).value_or(0) > 0;
    for (const auto entry : program::wire::FindAllBytes(options, kAdvancedConfiguration)) {
      if (IsHostOnly(entry)) session.wanted = false;
    }
    session.options.programs = program::wire::FindInt(options, kEnableHloProto).value_or(0) != 0;
  } catch (const protozero::exception&) {
    // No options that can be read: those of a session without.
  }
}

pjrt::ProfilerError* Create(pjrt::ProfilerCreateArgs* args) {
  auto* session = new Session;
  if (args->options != nullptr) ReadOptions({args->options, args->options_size}, *session);
  args->profiler = reinterpret_cast<pjrt::Profiler*>(session);
  return nullptr;
}

void End(Session& session) {
  if (!session.is_on) return;
  session.trace = StopTrace();
  session.is_on = false;
}

pjrt::ProfilerError* Destroy(pjrt::ProfilerArgs* args) {
  if (args->profiler == nullptr) return nullptr;
  End(*FromPjrt(args->profiler));
  delete FromPjrt(args->profiler);
  return nullptr;
}

pjrt::ProfilerError* Start(pjrt::ProfilerArgs* args) {
  Session& session = *FromPjrt(args->profiler);
  if (!session.wanted) return nullptr;
  const Status started = StartTrace();
  session.is_on = started.ok();
  return ToError(started);
}

pjrt::ProfilerError* Stop(pjrt::ProfilerArgs* args) {
  End(*FromPjrt(args->profiler));
  return nullptr;
}

pjrt::ProfilerError* CollectData(pjrt::ProfilerCollectDataArgs* args) {
  Session& session = *FromPjrt(args->profiler);
  if (!session.space) {
    session.space = WriteXSpace(session.trace, session.options);
    session.trace = {};
  }
  args->buffer_size = session.space->size();
  if (args->buffer == nullptr) {
    args->buffer = reinterpret_cast<uint8_t*>(session.space->data());
  } else {
    std::ranges::copy(*session.space, args->buffer);
  }
  return nullptr;
}

constexpr pjrt::ProfilerApi kApi{.struct_size = sizeof(pjrt::ProfilerApi),
                                 .priv = nullptr,
                                 .error_destroy = ErrorDestroy,
                                 .error_message = ErrorMessage,
                                 .error_get_code = ErrorGetCode,
                                 .create = Create,
                                 .destroy = Destroy,
                                 .start = Start,
                                 .stop = Stop,
                                 .collect_data = CollectData};

}  // namespace

PJRT_Extension_Base* MakeProfilerExtension(PJRT_Extension_Base* next) {
  static auto& extensions = *new std::deque<pjrt::ProfilerExtension>;
  auto& extension = extensions.emplace_back(
      pjrt::ProfilerExtension{.base = {.struct_size = sizeof(pjrt::ProfilerExtension),
                                       .type = PJRT_Extension_Type_Profiler,
                                       .next = next},
                              .profiler_api = &kApi,
                              .traceme_context_id = 0});
  return &extension.base;
}

}  // namespace torus::tpu
