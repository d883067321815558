package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

// plugin serves two devices. Of a claim it keeps a CDI file and an entry in a checkpoint of all claims, which is on disk before
// it answers: what the kubelet's contract asks for and no more.
func plugin(arguments []string) error {
	flags := flag.NewFlagSet("plugin", flag.ExitOnError)
	driver := flags.String("driver", "", "its name")
	node := flags.String("node", "", "the node's name")
	root := flags.String("kubelet-root", "", "the kubelet's root folder")
	cdi := flags.String("cdi", "", "folder for CDI files")
	kubeconfig := flags.String("kubeconfig", "", "credentials")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	configuration, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	configuration.QPS, configuration.Burst = 1000, 1000 // a default of 5 a second would be all that is measured
	configuration.Wrap(func(next http.RoundTripper) http.RoundTripper { return claimTimer{next} })
	client, err := kubernetes.NewForConfig(configuration)
	if err != nil {
		return err
	}
	data := filepath.Join(*root, "plugins", *driver)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	peer := &peer{driver: *driver, node: *node, cdi: *cdi, checkpoint: filepath.Join(data, "checkpoint.json"), claims: map[types.UID]record{}}
	if err := peer.load(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	helper, err := kubeletplugin.Start(ctx, peer,
		kubeletplugin.DriverName(*driver),
		kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.Serialize(false),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(*root, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data))
	if err != nil {
		return err
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, devices(*node)); err != nil {
		return err
	}
	for helper.RegistrationStatus() == nil || !helper.RegistrationStatus().PluginRegistered {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Millisecond):
		}
	}
	fmt.Println("registered")
	<-ctx.Done()
	return nil
}

// claimTimer prints how long each question for a claim took, up to the end of the answer: "claim MICROS".
type claimTimer struct{ next http.RoundTripper }

func (t claimTimer) RoundTrip(request *http.Request) (*http.Response, error) {
	began := time.Now()
	answer, err := t.next.RoundTrip(request)
	if err == nil && request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/resourceclaims/") {
		answer.Body = timedBody{answer.Body, began}
	}
	return answer, err
}

type timedBody struct {
	io.ReadCloser
	began time.Time
}

func (b timedBody) Close() error {
	fmt.Println("claim", time.Since(b.began).Microseconds())
	return b.ReadCloser.Close()
}

func devices(node string) resourceslice.DriverResources {
	var found []resourceapi.Device
	for number := range 2 {
		found = append(found, resourceapi.Device{
			Name:                     fmt.Sprintf("device-%d", number),
			AllowMultipleAllocations: ptr.To(true),
			Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
				"memory": {Value: resource.MustParse("80Gi")}},
		})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: found}}}}}
}

// record is what is kept of a claim.
type record struct {
	Devices []kubeletplugin.Device
}

type peer struct {
	driver, node, cdi, checkpoint string
	mutex                         sync.Mutex
	claims                        map[types.UID]record
}

func (p *peer) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := p.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (p *peer) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if known, ok := p.claims[claim.UID]; ok {
		return known.Devices, nil
	}
	var made record
	for number, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != p.driver {
			continue
		}
		made.Devices = append(made.Devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, ShareID: result.ShareID,
			CDIDeviceIDs: []string{fmt.Sprintf("%s=%s-%d", p.kind(), claim.UID, number)}})
	}
	if err := p.writeCDI(claim.UID, len(made.Devices)); err != nil {
		return nil, err
	}
	p.claims[claim.UID] = made
	if err := p.save(); err != nil {
		delete(p.claims, claim.UID)
		return nil, err
	}
	return made.Devices, nil
}

func (p *peer) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = nil
		if _, known := p.claims[claim.UID]; !known {
			continue
		}
		if err := os.Remove(p.cdiFile(claim.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			results[claim.UID] = err
			continue
		}
		delete(p.claims, claim.UID)
		results[claim.UID] = p.save()
	}
	return results, nil
}

func (p *peer) HandleError(_ context.Context, err error, message string) {
	fmt.Fprintln(os.Stderr, message, err)
}

func (p *peer) kind() string { return "k8s." + p.driver + "/claim" }

func (p *peer) cdiFile(uid types.UID) string {
	return filepath.Join(p.cdi, fmt.Sprintf("k8s.%s-claim_%s.json", p.driver, uid))
}

func (p *peer) writeCDI(uid types.UID, count int) error {
	type device struct {
		Name  string              `json:"name"`
		Edits map[string][]string `json:"containerEdits"`
	}
	var found []device
	for number := range count {
		found = append(found, device{fmt.Sprintf("%s-%d", uid, number), map[string][]string{"env": {"PEER=1"}}})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.5.0", "kind": p.kind(), "devices": found})
	if err != nil {
		return err
	}
	return replace(p.cdiFile(uid), text, false)
}

func (p *peer) save() error {
	text, err := json.Marshal(p.claims)
	if err != nil {
		return err
	}
	return replace(p.checkpoint, text, true)
}

func (p *peer) load() error {
	text, err := os.ReadFile(p.checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(text, &p.claims)
}

// replace writes a file whole; synced, so that a power cut leaves the old one or the new one.
func replace(path string, text []byte, sync bool) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err == nil && sync {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
