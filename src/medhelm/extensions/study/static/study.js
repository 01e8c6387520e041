/* Pages of a study: renews the numbers in place, copies a link, and leads to what is wrong in a form. */
(function () {
  'use strict';
  var PERIOD_MS = 10000;
  var LONGEST_MS = 60000;
  var live = document.getElementById('live');
  var problems = document.getElementById('problems');
  var timer = 0;
  var lost = 0;
  document.documentElement.classList.add('scripted');
  if (problems) { problems.focus(); }

  document.addEventListener('click', function (event) {
    var source = document.getElementById(event.target.getAttribute('data-copy') || ' ');
    if (!source) { return; }
    source.select();
    navigator.clipboard.writeText(source.value).then(function () {
      document.getElementById('copied').textContent = 'Copied.';
    }, function () {
      document.getElementById('copied').textContent = 'The browser does not allow copying. The link is selected: copy it with the keyboard.';
    });
  });

  if (!live) { return; }

  // Only texts and bars change, so that the focus and the selection stay. New rows need the whole page.
  function show(found) {
    document.querySelectorAll('[data-live]').forEach(function (one) {
      var value = found.values[one.getAttribute('data-live')];
      if (value === undefined) { return; }
      if (one.nodeName === 'PROGRESS') { one.value = value; } else if (one.textContent !== value) { one.textContent = value; }
    });
    live.querySelector('.changed').hidden = found.layout === live.getAttribute('data-live-layout');
  }

  function later() {
    clearTimeout(timer);
    if (!document.hidden) { timer = setTimeout(ask, Math.min(PERIOD_MS * (1 + lost), LONGEST_MS)); }
  }

  function ask() {
    var request = new XMLHttpRequest();
    request.open('GET', live.getAttribute('data-live-address'));
    request.responseType = 'json';
    request.timeout = PERIOD_MS;
    request.onload = function () {
      lost = request.status === 200 && request.response ? 0 : lost + 1;
      if (!lost) { show(request.response); }
      later();
    };
    request.onerror = request.ontimeout = function () { lost += 1; later(); };
    request.send();
  }

  document.addEventListener('visibilitychange', function () {
    clearTimeout(timer);
    if (!document.hidden) { ask(); }
  });
  later();
}());
