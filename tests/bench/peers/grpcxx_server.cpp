/*
 * grpcxx_server - the peer of unary calls: ModelService of a router, served by gRPC's C++ library.
 *
 *     grpcxx_server sync|callback ROUTER_ADDRESS
 *
 * Asks the router for its models once and answers ListModels with the same message. Prints its port, and serves until its
 * standard input ends. It has no limits, no request ids and no log: less than a router does for a call.
 */
#include "kvferry/v1/model.grpc.pb.h"

#include <cstdio>
#include <cstring>
#include <grpcpp/grpcpp.h>
#include <memory>

using kvferry::v1::ListModelsRequest;
using kvferry::v1::ListModelsResponse;
using kvferry::v1::ModelService;

static ListModelsResponse answer; // constant after main has asked for it

class SyncService final : public ModelService::Service
{
    grpc::Status ListModels(grpc::ServerContext *, const ListModelsRequest *,
                            ListModelsResponse *response) override
    {
        *response = answer;
        return grpc::Status::OK;
    }
};

class CallbackService final : public ModelService::CallbackService
{
    grpc::ServerUnaryReactor *ListModels(grpc::CallbackServerContext *context,
                                         const ListModelsRequest *,
                                         ListModelsResponse *response) override
    {
        *response = answer;
        auto *reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
    }
};

static bool ask(const char *address)
{
    auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto status = ModelService::NewStub(channel)->ListModels(&context, ListModelsRequest(),
                                                                   &answer);
    if (!status.ok())
        fprintf(stderr, "grpcxx_server: %s: %s\n", address, status.error_message().c_str());
    return status.ok();
}

int main(int argc, char **argv)
{
    const bool is_sync = argc == 3 && strcmp(argv[1], "sync") == 0;
    if (argc != 3 || (!is_sync && strcmp(argv[1], "callback") != 0)) {
        fprintf(stderr, "usage: grpcxx_server sync|callback ROUTER_ADDRESS\n");
        return 2;
    }
    if (!ask(argv[2]))
        return 1;
    SyncService sync;
    CallbackService callback;
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    if (is_sync)
        builder.RegisterService(&sync);
    else
        builder.RegisterService(&callback);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    if (!server)
        return 1;
    printf("%d\n", port);
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    server->Shutdown();
    return 0;
}
