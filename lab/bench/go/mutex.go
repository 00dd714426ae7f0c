// mutex.go: etcd's own client, and its concurrency.Mutex, for script/interop and the row ego of locker-bench. It prints numbers, in lines of
// "name value".
//
//	mutex ENDPOINT one CYCLES         p50_ns of lock + unlock by one goroutine on a session that it keeps; cpu_ns each
//	mutex ENDPOINT many GOROUTINES MS rate of lock + unlock, with a key each, on one client
//	mutex ENDPOINT handoff TIMES MS   p50_ns from an unlock to its waiter, on another client, that has slept for MS
//	mutex ENDPOINT add NAME DIRECTORY TIMES MS  what tests/interop/add.sh does under the lock NAME; it sleeps for MS after each time
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

var background = context.Background()

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutex:", err)
		os.Exit(1)
	}
}

func number(at int) int {
	n, err := strconv.Atoi(os.Args[at])
	check(err)
	return n
}

func session() *concurrency.Session {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Args[1]}, DialTimeout: 10 * time.Second})
	check(err)
	s, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	check(err)
	return s
}

func processor() int64 {
	var use syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return use.Utime.Nano() + use.Stime.Nano()
}

func median(took []time.Duration) int64 {
	sort.Slice(took, func(a, b int) bool { return took[a] < took[b] })
	return int64(took[len(took)/2])
}

func one(cycles int) {
	s := session()
	m := concurrency.NewMutex(s, "bench/go")
	took := make([]time.Duration, cycles)
	check(m.Lock(background))
	check(m.Unlock(background))
	cpu := processor()
	for i := range took {
		from := time.Now()
		check(m.Lock(background))
		check(m.Unlock(background))
		took[i] = time.Since(from)
	}
	fmt.Println("cpu_ns", (processor()-cpu)/int64(cycles))
	fmt.Println("p50_ns", median(took))
	check(s.Close())
}

func many(goroutines int, ms int) {
	s := session()
	var cycles int64
	var all sync.WaitGroup
	from := time.Now()
	end := from.Add(time.Duration(ms) * time.Millisecond)
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func(i int) {
			m := concurrency.NewMutex(s, fmt.Sprintf("bench/go-%d", i))
			for time.Now().Before(end) {
				check(m.Lock(background))
				check(m.Unlock(background))
				atomic.AddInt64(&cycles, 1)
			}
			all.Done()
		}(i)
	}
	all.Wait()
	fmt.Println("rate", float64(cycles)/time.Since(from).Seconds())
	check(s.Close())
}

func handoff(times int, ms int) {
	a, b := session(), session()
	giver, taker := concurrency.NewMutex(a, "bench/go-hand"), concurrency.NewMutex(b, "bench/go-hand")
	took := make([]time.Duration, times)
	for i := range took {
		has := make(chan time.Time)
		check(giver.Lock(background))
		go func() {
			check(taker.Lock(background))
			has <- time.Now()
		}()
		time.Sleep(time.Duration(ms) * time.Millisecond)
		from := time.Now()
		check(giver.Unlock(background))
		took[i] = (<-has).Sub(from)
		check(taker.Unlock(background))
	}
	fmt.Println("p50_ns", median(took))
	check(a.Close())
	check(b.Close())
}

func add(name string, directory string, times int, ms int) {
	s := session()
	m := concurrency.NewMutex(s, name)
	counter, err := os.OpenFile(directory+"/counter", os.O_RDWR, 0)
	check(err)
	grants, err := os.OpenFile(directory+"/grants", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0644)
	check(err)
	for i := 0; i < times; i++ {
		check(m.Lock(background))
		mine, err := s.Client().Get(background, m.Key())
		check(err)
		was := make([]byte, 6)
		_, err = counter.ReadAt(was, 0)
		check(err)
		number, err := strconv.Atoi(strings.TrimSpace(string(was)))
		check(err)
		_, err = fmt.Fprintln(grants, mine.Kvs[0].CreateRevision, number, "go")
		check(err)
		_, err = counter.WriteAt([]byte(fmt.Sprintf("%6d\n", number+1)), 0)
		check(err)
		check(m.Unlock(background))
		time.Sleep(time.Duration(ms) * time.Millisecond)
	}
	check(s.Close())
}

func main() {
	switch {
	case len(os.Args) == 4 && os.Args[2] == "one":
		one(number(3))
	case len(os.Args) == 5 && os.Args[2] == "many":
		many(number(3), number(4))
	case len(os.Args) == 5 && os.Args[2] == "handoff":
		handoff(number(3), number(4))
	case len(os.Args) == 7 && os.Args[2] == "add":
		add(os.Args[3], os.Args[4], number(5), number(6))
	default:
		check(fmt.Errorf("see mutex.go for its arguments"))
	}
}
