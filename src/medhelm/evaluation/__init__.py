"""Run an evaluation: decide the requests, send them, score the completions, record the run.

One instance passes these functions in this order, from `medhelm run` to `records.parquet`:

    cli.run.run                                         names on the command line -> benchmarks, models, settings
    evaluation.evaluate.evaluate                        checks everything; if anything is wrong, nothing is sent
    benchmarks.data.dataset.open_dataset                checksums, expected count, selection -> `Dataset`
    benchmarks.data.instances.InstanceReader.read       row of the data -> `Instance`
    evaluation.runner.EvaluationRunner.run              the loop over instances, in `_Work`
    evaluation.runner.LiveCompletions.completions       from models; other sources read stored runs
    evaluation.requests.model_requests                  `Instance` -> `Request`: the one place that decides what is sent
    benchmarks.prompts.render                           templates of the benchmark -> prompt
    evaluation.context_window.ContextFitter.ask         truncates a prompt that is too long, then asks the client
    models.client.Client.complete                       cache, limit on requests in flight, budget, provider, retries
    models.cache.Cache.get                              digest of the request -> `Completion` that was received before
    models.providers.hosted.HttpProvider.complete       `Request` -> HTTP -> `Completion`, in the service's dialect
    io.http.client.HttpClient.post                      egress policy, audit log, timeout
    models.cache.Cache.put                              committed to disk: now it counts as received
    scoring.jury.panel.JudgePanel.judge                 if there are judges: each grades it, called like a model
    scoring.metric.apply                                `Instance`, `Completion` -> `Score`, by each metric
    evaluation.recorder.RunRecorder.add                 `Record` by `Record`; `finish` computes the estimates
    storage.runs.RunWriter.add                          `records.parquet`; `finish`: `run.json`, renamed into place

`_Work` takes each instance through `_jobs`, `_complete`, `_record` and `_score`. A command that was killed continues by
itself: it finds what it received in the cache.
"""
