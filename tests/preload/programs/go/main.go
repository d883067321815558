// A Go program that loads the driver at run time, as Go programs do: dlopen and dlsym, calls from goroutines on several
// threads, and children that are processes of their own. It prints what each step answered, as JSON.
//
//	program LIMIT_MIB     fill the share, ask for 1 MiB more, free from several threads
//	program child MIB     take that much and answer
package main

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>

typedef int (*one_int)(unsigned);
typedef int (*retain)(void**, int);
typedef int (*set_current)(void*);
typedef int (*allocate)(uint64_t*, uint64_t);
typedef int (*release)(uint64_t);
typedef int (*report)(uint64_t*, uint64_t*);

static int init(void* f) { return ((one_int)f)(0); }
static int call_retain(void* f, void** context) { return ((retain)f)(context, 0); }
static int call_set(void* f, void* context) { return ((set_current)f)(context); }
static int call_allocate(void* f, uint64_t* block, uint64_t bytes) { return ((allocate)f)(block, bytes); }
static int call_release(void* f, uint64_t block) { return ((release)f)(block); }
static int call_report(void* f, uint64_t* left, uint64_t* total) { return ((report)f)(left, total); }
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"unsafe"
)

const mib = 1 << 20

type driver struct {
	library unsafe.Pointer
	context unsafe.Pointer
}

func (d *driver) find(name string) unsafe.Pointer {
	found := C.dlsym(d.library, C.CString(name))
	if found == nil {
		fmt.Fprintln(os.Stderr, "the driver has no", name)
		os.Exit(1)
	}
	return found
}

func must(status C.int, what string) {
	if status != 0 {
		fmt.Fprintln(os.Stderr, what, status)
		os.Exit(1)
	}
}

func start() *driver {
	runtime.LockOSThread()
	d := &driver{library: C.dlopen(C.CString("libcuda.so.1"), C.RTLD_NOW)}
	if d.library == nil {
		fmt.Fprintln(os.Stderr, C.GoString(C.dlerror()))
		os.Exit(1)
	}
	must(C.init(d.find("cuInit")), "cuInit")
	must(C.call_retain(d.find("cuDevicePrimaryCtxRetain"), &d.context), "context")
	d.enter()
	return d
}

// enter makes the context current on this thread, which the goroutine keeps.
func (d *driver) enter() {
	runtime.LockOSThread()
	must(C.call_set(d.find("cuCtxSetCurrent"), d.context), "cuCtxSetCurrent")
}

func (d *driver) allocate(bytes uint64) (C.int, C.uint64_t) {
	var block C.uint64_t
	status := C.call_allocate(d.find("cuMemAlloc_v2"), &block, C.uint64_t(bytes))
	return status, block
}

func (d *driver) left() (uint64, uint64) {
	var left, total C.uint64_t
	must(C.call_report(d.find("cuMemGetInfo_v2"), &left, &total), "cuMemGetInfo_v2")
	return uint64(left), uint64(total)
}

// threads fills the share with blocks from eight threads and frees them from eight others; how many were granted.
func (d *driver) threads(bytes uint64) int {
	blocks := make(chan C.uint64_t, 4096)
	var takers, givers sync.WaitGroup
	for range 8 {
		takers.Add(1)
		go func() {
			defer takers.Done()
			d.enter()
			for {
				status, block := d.allocate(bytes)
				if status != 0 {
					return
				}
				blocks <- block
			}
		}()
	}
	takers.Wait()
	close(blocks)
	granted := len(blocks)
	for range 8 {
		givers.Add(1)
		go func() {
			defer givers.Done()
			d.enter()
			for block := range blocks {
				must(C.call_release(d.find("cuMemFree_v2"), block), "cuMemFree_v2")
			}
		}()
	}
	givers.Wait()
	return granted
}

func child(bytes uint64) string {
	done, err := exec.Command(os.Args[0], "child", strconv.FormatUint(bytes/mib, 10)).Output()
	if err != nil {
		return err.Error()
	}
	return string(done)
}

func main() {
	amount, _ := strconv.ParseUint(os.Args[len(os.Args)-1], 10, 64)
	d := start()
	if os.Args[1] == "child" {
		status, _ := d.allocate(amount * mib)
		fmt.Print(status)
		return
	}
	left, total := d.left()
	whole, block := d.allocate(left / (2 * mib) * (2 * mib))
	beyond, _ := d.allocate(mib)
	refusedChild := child(mib)
	must(C.call_release(d.find("cuMemFree_v2"), block), "cuMemFree_v2")
	grantedChild := child(mib)
	granted := d.threads(16 * mib)
	after, _ := d.left()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"total": total, "left": left, "whole": whole, "beyond": beyond,
		"child_beyond": refusedChild, "child": grantedChild, "granted": granted, "after": after})
}
