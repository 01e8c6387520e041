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

  // The words of a page without the texts that are renewed in place.
  function rest(page) {
    var main = page.querySelector('main').cloneNode(true);
    main.querySelectorAll('[data-live], [role=status]').forEach(function (one) { one.textContent = ''; });
    return main.textContent.replace(/\s+/g, ' ');
  }

  // Only texts and bars change, so that the focus and the selection stay. New rows need the whole page.
  function show(page) {
    live.querySelector('.changed').hidden = rest(page) === rest(document);
    document.querySelectorAll('[data-live]').forEach(function (one) {
      var now = page.querySelector('[data-live="' + one.getAttribute('data-live') + '"]');
      if (!now) { return; }
      if (one.nodeName === 'PROGRESS') { one.value = now.value; } else if (one.textContent !== now.textContent) { one.textContent = now.textContent; }
    });
  }

  function later() {
    clearTimeout(timer);
    if (!document.hidden) { timer = setTimeout(ask, Math.min(PERIOD_MS * (1 + lost), LONGEST_MS)); }
  }

  function ask() {
    var request = new XMLHttpRequest();
    request.open('GET', location.pathname);
    request.responseType = 'document';
    request.timeout = PERIOD_MS;
    request.onload = function () {
      lost = request.status === 200 && request.response && request.response.getElementById('live') ? 0 : lost + 1;
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
