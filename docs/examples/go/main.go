// Prints a completion as it comes: example ADDRESS PROMPT
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	kvferry "example/kvferry/v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

func generate(address, prompt string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	stream, err := kvferry.NewGenerationServiceClient(connection).Generate(ctx, &kvferry.GenerateRequest{
		Prompt: &kvferry.GenerateRequest_Text{Text: prompt},
		// What is nil is the model's own default; 0 is not nil.
		Sampling: &kvferry.SamplingParams{MaxTokens: proto.Uint32(32), Temperature: proto.Float32(0)},
	})
	if err != nil {
		return err
	}
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			fmt.Println()
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Print(reply.Text)
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: example ADDRESS PROMPT")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
