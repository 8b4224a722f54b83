// A client of the public API with code that protoc-gen-go made of the published files:
// client ADDRESS PROMPT. Prints one JSON object; ends with 1 and a sentence when something is not as it must be.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	pb "client/kvferry/v1"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// What the caller compares with what other clients got.
type report struct {
	Model      string
	Ids        []uint32
	Streamed   []uint32
	RequestId  []string // of the headers
	Reason     string   // of an error
	Metadata   map[string]string
	FieldAtBad string
}

func sampling() *pb.SamplingParams {
	// A temperature of 0 is not one that was left out: presence survives.
	return &pb.SamplingParams{MaxTokens: proto.Uint32(8), Temperature: proto.Float32(0)}
}

func complete(ctx context.Context, stub pb.GenerationServiceClient, prompt string, out *report) {
	var header metadata.MD
	reply, err := stub.Complete(
		metadata.AppendToOutgoingContext(ctx, "x-request-id", "named in Go"),
		&pb.CompleteRequest{Prompt: &pb.CompleteRequest_Text{Text: prompt}, Sampling: sampling()},
		grpc.Header(&header), grpc.UseCompressor(gzip.Name))
	check(err)
	out.Ids = reply.TokenIds
	out.RequestId = header.Get("x-request-id")
}

func generate(ctx context.Context, stub pb.GenerationServiceClient, prompt string, out *report) {
	stream, err := stub.Generate(ctx, &pb.GenerateRequest{
		Prompt: &pb.GenerateRequest_Text{Text: prompt}, Sampling: sampling()})
	check(err)
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			return
		}
		check(err)
		out.Streamed = append(out.Streamed, reply.TokenIds...)
	}
}

func fail(ctx context.Context, stub pb.GenerationServiceClient, out *report) {
	bad := sampling()
	bad.TopP = proto.Float32(1.5)
	_, err := stub.Complete(ctx, &pb.CompleteRequest{
		Prompt: &pb.CompleteRequest_Text{Text: "x"}, Sampling: bad})
	for _, detail := range status.Convert(err).Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			out.Reason = detail.Reason
			out.Metadata = detail.Metadata
		case *errdetails.BadRequest:
			out.FieldAtBad = detail.FieldViolations[0].Field
		}
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer connection.Close()

	var out report
	models, err := pb.NewModelServiceClient(connection).ListModels(ctx, &pb.ListModelsRequest{})
	check(err)
	out.Model = models.Models[0].Name
	stub := pb.NewGenerationServiceClient(connection)
	complete(ctx, stub, os.Args[2], &out)
	generate(ctx, stub, os.Args[2], &out)
	fail(ctx, stub, &out)
	check(json.NewEncoder(os.Stdout).Encode(out))
}
