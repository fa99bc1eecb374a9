#include "backends/orc_engine.h"

#include <atomic>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "llvm/ExecutionEngine/JITEventListener.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/ExecutionEngine/Orc/ObjectFileInterface.h"
#include "llvm/ExecutionEngine/Orc/RTDyldObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/SectionMemoryManager.h"
#include "llvm/Support/TargetSelect.h"

namespace cinn_like {
namespace {

// Why a link failed comes by the session's reporter, in the thread that links; the error itself only says what failed.
thread_local std::string report;

Status ToStatus(llvm::Error error) {
  if (!error) return absl::OkStatus();
  return Internal("JIT: ", std::exchange(report, ""), llvm::toString(std::move(error)));
}

// Listeners hear only of what RuntimeDyld links; everything else goes through JITLink, LLJIT's own choice.
llvm::orc::LLJITBuilder::ObjectLinkingLayerCreator ListeningLayer(llvm::JITEventListener* listener) {
  return [listener](llvm::orc::ExecutionSession& session,
                    const llvm::Triple&) -> llvm::Expected<std::unique_ptr<llvm::orc::ObjectLayer>> {
    auto layer = std::make_unique<llvm::orc::RTDyldObjectLinkingLayer>(
        session, [] { return std::make_unique<llvm::SectionMemoryManager>(); });
    if (listener != nullptr) layer->registerJITEventListener(*listener);
    return layer;
  };
}

StatusOr<std::unique_ptr<llvm::orc::LLJIT>> MakeEngine(std::string_view listener) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::orc::LLJITBuilder builder;
  // Nothing of the platform (static initialisers, thread-locals) occurs in our objects.
  builder.setPlatformSetUp([](llvm::orc::LLJIT&) { return llvm::orc::JITDylibSP(); });
  builder.setLinkProcessSymbolsByDefault(false);
  if (listener == "gdb") {
    builder.setObjectLinkingLayerCreator(ListeningLayer(llvm::JITEventListener::createGDBRegistrationListener()));
  } else if (listener == "perf") {
    builder.setObjectLinkingLayerCreator(ListeningLayer(llvm::JITEventListener::createPerfJITEventListener()));
  } else if (!listener.empty()) {
    return InvalidArgument("unknown JIT listener '", listener, "': expected 'gdb' or 'perf'");
  }
  auto jit = builder.create();
  if (!jit) return ToStatus(jit.takeError());
  (*jit)->getExecutionSession().setErrorReporter(
      [](llvm::Error error) { report += llvm::toString(std::move(error)) + "; "; });
  return std::move(*jit);
}

// Never destroyed: code may run in other threads while the process exits.
StatusOr<llvm::orc::LLJIT*> EngineFor(std::string_view listener) {
  static std::mutex mutex;
  static auto* engines = new absl::flat_hash_map<std::string, std::unique_ptr<llvm::orc::LLJIT>>();
  const std::lock_guard lock(mutex);
  auto it = engines->find(std::string(listener));
  if (it == engines->end()) {
    ASSIGN_OR_RETURN(auto jit, MakeEngine(listener));
    it = engines->emplace(std::string(listener), std::move(jit)).first;
  }
  return it->second.get();
}

}  // namespace

struct JitCode::Impl {
  llvm::orc::LLJIT* jit;
  llvm::orc::JITDylib* library;
  ~Impl() { llvm::consumeError(jit->getExecutionSession().removeJITDylib(*library)); }
};

JitCode::JitCode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JitCode::~JitCode() = default;

StatusOr<std::unique_ptr<JitCode>> JitCode::Load(std::string_view name, std::span<const std::string> objects,
                                                 const SymbolAddresses& symbols, std::string_view listener) {
  static std::atomic<int64_t> serial{0};
  ASSIGN_OR_RETURN(llvm::orc::LLJIT * jit, EngineFor(listener));
  llvm::orc::ExecutionSession& session = jit->getExecutionSession();
  // Of one name there may be many; the session wants them distinct.
  llvm::orc::JITDylib& library = session.createBareJITDylib(Cat(name, ".", serial++));
  auto code = std::unique_ptr<JitCode>(new JitCode(std::make_unique<Impl>(jit, &library)));

  llvm::orc::SymbolMap map;
  for (const auto& [symbol, address] : symbols) {
    map[jit->mangleAndIntern(symbol)] = {llvm::orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
  }
  RETURN_IF_ERROR(ToStatus(library.define(llvm::orc::absoluteSymbols(std::move(map)))));
  llvm::orc::SymbolLookupSet defined;
  for (const std::string& object : objects) {
    auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()));
    auto interface = llvm::orc::getObjectFileInterface(session, buffer->getMemBufferRef());
    if (!interface) return ToStatus(interface.takeError());
    for (const auto& [symbol, flags] : interface->SymbolFlags) defined.add(symbol);
    auto error =
        jit->getObjLinkingLayer().add(library.getDefaultResourceTracker(), std::move(buffer), *std::move(interface));
    if (error) return ToStatus(std::move(error));
  }
  // Links everything now, so that an error surfaces here and calls never compile.
  auto linked = session.lookup(llvm::orc::makeJITDylibSearchOrder(&library), std::move(defined));
  if (!linked) return ToStatus(linked.takeError());
  return code;
}

void* JitCode::Lookup(std::string_view symbol) const {
  auto address = impl_->jit->lookup(*impl_->library, llvm::StringRef(symbol.data(), symbol.size()));
  if (!address) {
    llvm::consumeError(address.takeError());
    return nullptr;
  }
  return address->toPtr<void*>();
}

}  // namespace cinn_like
