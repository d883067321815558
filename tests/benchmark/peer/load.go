package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
)

// result is what is printed: each prepare, and all of them from the first to the last.
type result struct {
	Micros []int64 `json:"micros"`
	Wall   int64   `json:"wall"`
}

func load(arguments []string) error {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	socket := flags.String("socket", "", "the plugin's socket")
	file := flags.String("claims", "", "JSON file with namespace, name and uid of each claim")
	parallel := flags.Int("parallel", 1, "calls at once, each of one claim")
	rounds := flags.Int("rounds", 1, "how often; all claims are unprepared between two rounds")
	pause := flags.Duration("pause", 0, "wait before each call, for this long up to twice as long")
	keep := flags.Bool("keep", false, "leave the claims prepared behind the last round")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var claims []*drapb.Claim
	if err := json.Unmarshal(text, &claims); err != nil {
		return err
	}
	connection, err := grpc.NewClient("unix:"+*socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		return err
	}
	defer connection.Close()
	kubelet := caller{drapb.NewDRAPluginClient(connection), *pause}
	var all result
	for round := range *rounds {
		one, err := kubelet.prepareAll(claims, *parallel)
		if err != nil {
			return err
		}
		all.Micros = append(all.Micros, one.Micros...)
		all.Wall += one.Wall
		if round+1 == *rounds && *keep {
			break
		}
		for _, claim := range claims {
			if err := kubelet.unprepare(claim); err != nil {
				return err
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(all)
}

type caller struct {
	plugin drapb.DRAPluginClient
	pause  time.Duration
}

const patience = 45 * time.Second // as a kubelet has

func (c caller) prepareAll(claims []*drapb.Claim, parallel int) (result, error) {
	micros := make([]int64, len(claims))
	failures := make([]error, len(claims))
	numbers := make(chan int)
	var workers sync.WaitGroup
	began := time.Now()
	for range parallel {
		workers.Go(func() {
			for number := range numbers {
				// What a plugin does by a clock of its own is met at every point of it.
				time.Sleep(c.pause + c.pause*time.Duration(number*37%100)/100)
				before := time.Now()
				failures[number] = c.prepare(claims[number])
				micros[number] = time.Since(before).Microseconds()
			}
		})
	}
	for number := range claims {
		numbers <- number
	}
	close(numbers)
	workers.Wait()
	for _, err := range failures {
		if err != nil {
			return result{}, err
		}
	}
	return result{micros, time.Since(began).Microseconds()}, nil
}

func (c caller) prepare(claim *drapb.Claim) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := c.plugin.NodePrepareResources(ctx, &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{claim}})
	if err != nil {
		return err
	}
	if one := answer.Claims[claim.Uid]; one == nil || one.Error != "" || len(one.Devices) != 1 {
		return fmt.Errorf("claim %s: %v", claim.Name, one)
	}
	return nil
}

func (c caller) unprepare(claim *drapb.Claim) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := c.plugin.NodeUnprepareResources(ctx, &drapb.NodeUnprepareResourcesRequest{Claims: []*drapb.Claim{claim}})
	if err != nil {
		return err
	}
	if one := answer.Claims[claim.Uid]; one == nil || one.Error != "" {
		return fmt.Errorf("claim %s: %v", claim.Name, one)
	}
	return nil
}
